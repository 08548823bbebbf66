"""The pages: jobs with their timelines and artifacts, and kernels with their numbers over commits."""
