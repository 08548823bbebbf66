"""What is told of a result: plots and provenance; sentences are the service's."""
