"""The steps of a pipeline, one file a stage; `table` lists them."""
