"""The author that asks a language model: briefs to questions, answers to what may be judged. Pure; stages do the asking.

A question tells the model all that its brief holds, and quotes texts of others between marks that they cannot close; an answer is
read strictly against its brief, and what is wrong with it is one of ``Fault`` with a sentence. Nothing of an answer is run here.
"""

from workers.authors.llm.answers import (
    read_change,
    read_composition,
    read_diagnosis,
    read_kernel,
    read_problem,
    read_variant,
    read_wishes,
)
from workers.authors.llm.prompts import versions
from workers.authors.llm.questions import (
    change_question,
    composition_question,
    cut_question,
    diagnosis_question,
    kernel_question,
    problem_question,
    variant_question,
)

__all__ = [
    "change_question",
    "composition_question",
    "cut_question",
    "diagnosis_question",
    "kernel_question",
    "problem_question",
    "read_change",
    "read_composition",
    "read_diagnosis",
    "read_kernel",
    "read_problem",
    "read_variant",
    "read_wishes",
    "variant_question",
    "versions",
]
