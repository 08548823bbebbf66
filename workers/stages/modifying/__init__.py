"""The stages of ``modify``: a targeted change of a kernel that stands, asked of a model, proved, tested, and measured."""
