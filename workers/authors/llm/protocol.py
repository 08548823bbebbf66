"""What the model author is told and what an answer of it comes to. Pure data; a text in a brief is data, never an order."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpu_runner.contracts import Graph, Problem
from workers.authors.protocol import KernelPlan, SourceStyle
from workers.errors import WorkersError


class Task(StrEnum):
    """What is asked for; the name of its prompt, and the purpose of its question in the ledger."""

    analyze = "analyze"  # from words or code to a problem
    generate = "generate"  # from a problem to a kernel
    repair = "repair"  # the same again, with what failed
    revise = "revise"  # the same again, with what a review said
    modify = "modify"  # a targeted change of a kernel that stands
    diagnose = "diagnose"  # from a profile to what bounds a kernel
    optimize = "optimize"  # one change that makes it faster
    extract = "extract"  # from a model's cut to what shall change in it
    compose = "compose"  # from proved parts to the function that calls them


class AnswerFault(StrEnum):
    """Why an answer cannot be used, before anything of it is run."""

    form = "form"  # a field is missing or says nothing
    path = "path"  # a file outside of what the layout gives
    too_large = "too_large"
    syntax = "syntax"  # what should be Python does not parse
    fence = "fence"  # a text with Markdown around its code
    names = "names"  # the functions that the layout calls are not defined
    edit = "edit"  # an edit whose old text is not there once
    tests = "tests"  # a test that stands would be changed or dropped
    reach = "reach"  # imports or calls that no kernel needs: network, processes, files
    same = "same"  # nothing is changed
    problem = "problem"  # the problem breaks a rule of its form


class UnusableAnswer(WorkersError):  # noqa: N818 - an expected outcome of asking a model
    """The answer is not used. The sentence is ours, for the model in a repair and for people; it quotes names alone."""

    def __init__(self, fault: AnswerFault, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


@dataclass(frozen=True)
class Remark:
    """One point of a review; ``number`` counts from 1 over all that must be answered, and an answer names it."""

    number: int
    text: str
    path: str | None = None
    line: int | None = None
    quoted: str | None = None  # the line that it stands at


@dataclass(frozen=True)
class Reply:
    """What was done about a remark, in the model's words; untrusted."""

    number: int
    text: str


@dataclass(frozen=True)
class Example:
    """A file of the target repository to learn its form from; ``why`` in a few words."""

    path: str
    text: str
    why: str


@dataclass(frozen=True)
class Failed:
    """What an earlier proposal came to. ``log`` is the runner's, shortened by whoever asks."""

    source: str  # what was proposed
    status: str  # a verdict's status, a fault, "style" or "tests"
    sentence: str
    evidence: tuple[str, ...] = ()  # a sentence each, the workload in it
    log: str = ""


@dataclass(frozen=True)
class Idea:
    """An entry of the strategy catalog whose trigger applies."""

    title: str
    text: str  # trigger, mechanism, evidence


@dataclass(frozen=True)
class ProblemBrief:
    """From words, or code that does not stand alone, to a problem."""

    name: str
    request: (
        str  # what a person wrote under the command, or a file or symbol of the repository or of an installed package
    )
    code: bool  # whether ``request`` is code
    origin: str = ""  # where it comes from: a path, an address
    beside: tuple[Example, ...] = ()  # what the code imports, problems that stand
    before: str | None = None  # the problem as it was, with remarks or a failure about it
    failed: Failed | None = None
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class ProblemAnswer:
    """A problem file, not yet parsed by the runner, and what was assumed."""

    source: str
    assumptions: tuple[str, ...]
    replies: tuple[Reply, ...] = ()


@dataclass(frozen=True)
class KernelBrief:
    """From a problem to the module that a layout puts at ``path``."""

    name: str
    path: str
    problem: Problem
    graph: Graph | None
    style: SourceStyle
    examples: tuple[Example, ...] = ()
    compiled: str | None = None  # the compiler author's module: a start that is right
    refused: str | None = None  # or why it has none
    ideas: tuple[Idea, ...] = ()
    counted: str = ""  # the least bytes and operations of each pass and size, by the graph
    measured: str = ""  # of the compiler's kernel: times and floors; a few lines
    hardware: str = ""  # GPU and versions that it is written for; a few lines
    remarks: tuple[Remark, ...] = ()
    before: str | None = None  # the module that the remarks are about
    failed: Failed | None = None  # in a repair


@dataclass(frozen=True)
class KernelAnswer:
    """A module in the style of the brief, not yet judged."""

    source: str
    plan: KernelPlan
    replies: tuple[Reply, ...] = ()


@dataclass(frozen=True)
class ChangeBrief:
    """A targeted change of files that stand. ``files`` may be edited, ``tests`` only be added to."""

    name: str
    request: str  # what a person asked for
    files: tuple[tuple[str, str], ...]  # path, text
    tests: tuple[tuple[str, str], ...]
    problem: str | None  # the problem as it stands, with its CALL
    examples: tuple[Example, ...] = ()
    remarks: tuple[Remark, ...] = ()
    failed: Failed | None = None
    before: tuple[tuple[str, str], ...] = ()  # the files as the last proposal left them
    carried: str | None = None  # the problem that came with it


@dataclass(frozen=True)
class ChangeAnswer:
    """The files as they shall be, those that change only; ``problem`` where the function itself changes."""

    files: tuple[tuple[str, str], ...]
    summary: str
    problem: str | None = None
    replies: tuple[Reply, ...] = ()


@dataclass(frozen=True)
class VariantBrief:
    """One change that makes the kernel of one file faster."""

    name: str
    path: str
    source: str  # the file to start from
    problem: Problem
    goal: str
    scope: str
    measured: str  # profile, roofline, times, limits: a page at most
    tried: tuple[tuple[str, str], ...] = ()  # earlier variants: what was changed, what was learned
    ideas: tuple[Idea, ...] = ()
    diagnosis: str = ""
    hardware: str = ""
    examples: tuple[Example, ...] = ()
    remarks: tuple[Remark, ...] = ()
    failed: Failed | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What bounds a kernel, in the model's words, and what to try in order."""

    bottleneck: str
    evidence: tuple[str, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True)
class CutBrief:
    """From a cut of a model to what shall change in it. ``listed`` has a line for each part, ``kept`` one for each operator that
    stays with torch, with its reason."""

    model: str
    listed: str
    kept: str
    picture: str


@dataclass(frozen=True)
class CompositionBrief:
    """From proved parts to the function that calls them. ``parts`` are their references, ``entry`` is the function as it is."""

    model: str
    parts: str
    entry: str
    failed: Failed | None = None


@dataclass(frozen=True)
class VariantAnswer:
    """The whole new file, with notes written before it runs."""

    source: str
    hypothesis: str
    change: str
    expected: str
    replies: tuple[Reply, ...] = field(default=())
