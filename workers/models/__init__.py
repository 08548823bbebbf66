"""Language models: the only room that speaks to their providers. Keys come from the workers' settings and stay here."""
