"""The steps of a pipeline. The table at ``workers.stages.table`` is the closed vocabulary; one file a stage."""
