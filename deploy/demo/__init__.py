"""The demo: the main job on the source of a real library, played on this machine."""
