"""The author that asks a language model: briefs to questions, answers to what may be judged. Pure; stages do the asking."""
