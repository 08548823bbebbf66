"""The grammar: one table of verbs, from which parser, help, did-you-mean and docs/commands.md come. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from workers.contracts import DEFAULT_OPERATORS, AuthorName, Choose, Goal, Verb

PREFIX = "/kernel"
MAX_COMMANDS = 5
MAX_KERNELS = 16  # that one bench or verify names
MAX_VARIANTS = 32
MAX_CANDIDATES = 8
MAX_REPAIRS = 5
LAYOUTS = ("liger", "plain", "versioned", "fla")
TARGETS = ("ascend", "cutile", "cutedsl", "rocm", "xpu")
TUNED_TARGETS = ("cutile", "cutedsl")
NEW_TARGETS = ("ascend", *TUNED_TARGETS, "rocm")  # of a kernel that the library does not have
ORIGINS = (DEFAULT_OPERATORS, *TARGETS)
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
SHA = re.compile(r"[0-9a-f]{7,40}")
# A branch, tag or commit: what git takes as a name, and nothing that it would read as an expression or as another repository.
REF = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,199}(?<![./])")
ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?|interpreter")
GPU_MODELS = {
    "ampere": "sm_80",
    "ada": "sm_89",
    "hopper": "sm_90",
    "blackwell": "sm_100",
    "a100": "sm_80",
    "a30": "sm_80",
    "a10": "sm_86",
    "a10g": "sm_86",
    "a40": "sm_86",
    "l4": "sm_89",
    "l40": "sm_89",
    "l40s": "sm_89",
    "h100": "sm_90",
    "h200": "sm_90",
    "h20": "sm_90",
    "h800": "sm_90",
    "a800": "sm_80",
    "gh200": "sm_90",
    "b200": "sm_100",
    "gb200": "sm_100",
    "b300": "sm_103",
    "gb300": "sm_103",
}  # Source: https://developer.nvidia.com/cuda-gpus
# As drivers and price lists write it, such as "NVIDIA H100 80GB HBM3".
GPU_NAME = re.compile(r"(?:nvidia )?(?P<model>[a-z]+\d*[a-z]?)(?:[ _](?:\d+gb|hbm\d\w?|sxm\d?|pcie|nvl|gpu))*")
GEFORCE = re.compile(r"(?:nvidia )?(?:geforce )?rtx[ _]?(?P<series>[345])0\d0(?:[ _](?:ti|super|d|laptop|gpu))*")
GEFORCE_SERIES = {"3": "sm_86", "4": "sm_89", "5": "sm_120"}


class ArgumentKind(StrEnum):
    """How a positional argument is read."""

    name = "name"  # a kernel's name
    kernel = "kernel"  # one that is there, by its name, its class's or its function's, in any spelling
    kernels = "kernels"  # several of them
    model = "model"  # PATH[:SYMBOL] or a link
    source = "source"  # from PATH[:SYMBOL] or from URL
    job = "job"
    sha = "sha"
    range = "range"  # two commits, branches or tags as GOOD..BAD
    text = "text"  # the rest of the line and what follows it
    verb = "verb"


@dataclass(frozen=True)
class Argument:
    """A positional argument, in its place."""

    kind: ArgumentKind
    usage: str
    summary: str
    required: bool = False


class ValueKind(StrEnum):
    """How an option's value is read."""

    choice = "choice"  # one of a few words
    architecture = "architecture"
    number = "number"  # a whole number from 1
    target = "target"  # such as "forward < 0.3 ms @ H=4096"
    scope = "scope"  # such as "backward, large"
    ref = "ref"  # a branch, a tag or a commit


@dataclass(frozen=True)
class Option:
    """An option; a flag where it has neither ``value`` nor ``choices``. ``choices`` are all its values where they are few."""

    name: str
    summary: str
    value: str | None = None
    choices: tuple[str, ...] = ()
    default: str = ""
    kind: ValueKind = ValueKind.choice
    most: int = 1  # of a number

    @property
    def value_wanted(self) -> bool:
        """Whether a value follows; a flag has none."""
        return self.value is not None or bool(self.choices)

    @property
    def usage(self) -> str:
        """The option as help shows it."""
        value = "|".join(self.choices) if self.choices else self.value
        return f"--{self.name} {value}" if value else f"--{self.name}"


@dataclass(frozen=True)
class Rule:
    """One verb: what it takes, an example that works, and what it does."""

    verb: Verb
    summary: str
    example: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    then: str = ""  # what may follow on the next lines
    synonyms: tuple[str, ...] = ()  # other words for the verb, which are understood
    suggested_for: tuple[str, ...] = ()  # words that may mean the verb: it is suggested, and nothing is done

    @property
    def usage(self) -> str:
        """The whole command in one line."""
        shown = [a.usage if a.required else f"[{a.usage}]" for a in self.arguments]
        return " ".join([PREFIX, self.verb.value, *shown, *(f"[{option.usage}]" for option in self.options)])

    def option(self, name: str) -> Option | None:
        """The option of that name."""
        return next((option for option in self.options if option.name == name), None)


_JOB = Argument(
    ArgumentKind.job, "JOB", "the job's id, as its status comment shows it; not needed if there is only one"
)
_PROBLEM = Argument(
    ArgumentKind.source,
    "from PATH[:SYMBOL]|URL",
    "the problem: a file of the repository, or a link to one on this host",
)
_VARIANTS_AUTHOR = Option(
    "author",
    "who writes variants: `compiler` asks no model, `auto` asks one after what needs none, `llm` right after the launch settings",
    choices=(AuthorName.compiler.value, AuthorName.llm.value, AuthorName.auto.value),
    default="auto",
)
_ANY_AUTHOR = Option(
    "author",
    "who writes the kernel: `compiler` asks no model, `auto` asks one where the compiler refuses or can be beaten, `llm` always",
    choices=(AuthorName.compiler.value, AuthorName.llm.value, AuthorName.auto.value),
    default="auto",
)
_PART_AUTHOR = Option(
    "author",
    "who writes parts: `compiler` asks no model, `auto` asks one for parts that the compiler refuses, `llm` for all",
    choices=(AuthorName.compiler.value, AuthorName.llm.value, AuthorName.auto.value),
    default="auto",
)
_MODEL_AUTHOR = Option(
    "author",
    "who makes the change; both mean a language model",
    choices=(AuthorName.llm.value, AuthorName.auto.value),
    default="auto",
)
_SEARCH = (
    Option(
        "candidates",
        f"kernels that a model is asked for at once, 1 to {MAX_CANDIDATES}",
        "N",
        default="3",
        kind=ValueKind.number,
        most=MAX_CANDIDATES,
    ),
    Option(
        "repairs",
        f"how often a model may repair a failed answer, 1 to {MAX_REPAIRS}",
        "N",
        default="3",
        kind=ValueKind.number,
        most=MAX_REPAIRS,
    ),
    Option(
        "choose",
        "which of a model's proved kernels to take: the first, or the fastest",
        choices=tuple(choose.value for choose in Choose),
        default="first",
    ),
)
_NEW_TO = Option("to", "the device and language to write it for", choices=NEW_TARGETS, default="a GPU, in Triton")
_TUNED_TO = Option(
    "to",
    "tune the implementation in this language, ported first if there is none",
    choices=TUNED_TARGETS,
    default="the kernel's own file",
)
_LAYOUT = Option("layout", "how kernels live in the repository", choices=LAYOUTS, default="detected")
_GPU = Option(
    "gpu",
    "the architecture to measure on, such as sm_90, h100 or hopper",
    "ARCH",
    default="any available",
    kind=ValueKind.architecture,
)
_SCOPE = Option(
    "scope",
    "what to improve: a pass, a part of the sizes (`small`, `large`), or sizes; several in quotes, such as "
    '`"backward, H=4096"`',
    "general|forward|backward|small|large|SIZES",
    default="general",
    kind=ValueKind.scope,
)
_TARGET = Option(
    "target",
    'when to stop: a pass, a time and sizes, in quotes, such as `"forward under 0.3 ms at hidden_size=4096"`',
    "TEXT",
    kind=ValueKind.target,
)
_PROFILE = Option(
    "profile",
    "profile the proved kernel: by Nsight Compute where the GPU host allows it, else by its bytes and operations",
)
_AUTO = Option("auto", "do not wait for reviews; the pull request stays open")
_DRY_RUN = Option("dry-run", "show what would be done and its limits, and start nothing")
_AGAINST = Option(
    "against",
    "the branch, tag or commit to compare with",
    "REF",
    default="the merge base of the pull request",
    kind=ValueKind.ref,
)
_KERNEL = Argument(
    ArgumentKind.kernel,
    "NAME",
    "the kernel, by its name, class or function; not needed on a pull request that touches one kernel",
)
_NAMED_KERNEL = Argument(ArgumentKind.kernel, "NAME", "the kernel, by its name, class or function", required=True)
_KERNELS = Argument(
    ArgumentKind.kernels, "NAME ...", f"the kernels, at most {MAX_KERNELS}; by default those that the change touches"
)

GRAMMAR: tuple[Rule, ...] = (
    Rule(
        Verb.create,
        "Write, prove and measure a new kernel, on a pull request.",
        "/kernel create reglu --layout liger",
        (Argument(ArgumentKind.name, "NAME", "the new kernel's name, in snake_case", required=True), _PROBLEM),
        (_ANY_AUTHOR, *_SEARCH, _NEW_TO, _LAYOUT, _GPU, _PROFILE, _AUTO, _DRY_RUN),
        "a fenced Python block that holds the problem, or words where a model is configured",
        synonyms=("build", "add", "write", "generate", "implement", "new"),
        suggested_for=("make",),
    ),
    Rule(
        Verb.optimize,
        "Make an existing kernel faster or smaller, and prove it, on a pull request.",
        '/kernel optimize rms_norm --goal speed --target "forward < 0.3 ms @ H=4096"',
        (_KERNEL, _PROBLEM),
        (
            Option("goal", "what to improve", choices=tuple(goal.value for goal in Goal), default="balanced"),
            _SCOPE,
            Option(
                "variants",
                f"how many variants to try at most, 1 to {MAX_VARIANTS}",
                "N",
                default="8",
                kind=ValueKind.number,
                most=MAX_VARIANTS,
            ),
            _TARGET,
            _TUNED_TO,
            _GPU,
            _VARIANTS_AUTHOR,
            _SEARCH[1],
            _LAYOUT,
            _AUTO,
            _DRY_RUN,
        ),
        "a fenced Python block that holds the problem with its `CALL`, if the library's is not known",
        synonyms=("optimise", "speed-up", "speedup", "accelerate", "improve"),
        suggested_for=("faster", "quicker", "smaller", "leaner", "speed", "reduce", "shrink", "perf"),
    ),
    Rule(
        Verb.modify,
        "Change an existing kernel as described, and prove, test and measure the change, on a pull request.",
        "/kernel modify geglu let the caller choose the slope of the gate; today's is the default",
        (
            _NAMED_KERNEL,
            Argument(ArgumentKind.text, "TEXT", "what to change; may continue on the next lines", required=True),
        ),
        (_MODEL_AUTHOR, *_SEARCH[:2], _LAYOUT, _GPU, _PROFILE, _AUTO, _DRY_RUN),
        "more words, and a fenced Python block with a problem and its `CALL`: what the kernel computes after the change, or what "
        "it computes today where the library's is not known",
        synonyms=("fix", "update", "change", "extend", "edit", "adapt"),
        suggested_for=("patch", "refactor", "repair", "rename"),
    ),
    Rule(
        Verb.port,
        "Port an existing operator to another device with the same API, and prove it, on a pull request.",
        "/kernel port rms_norm --to ascend",
        (_NAMED_KERNEL, _PROBLEM),
        (
            Option("to", "the device and language to port to", choices=TARGETS, default="ascend"),
            Option("from", "the implementation whose API is kept", choices=ORIGINS, default=DEFAULT_OPERATORS),
            _LAYOUT,
            _AUTO,
            _DRY_RUN,
        ),
        "a fenced Python block that holds the problem with its `CALL`, if the library's is not known",
        synonyms=("migrate",),
        suggested_for=("npu", "ascend", "cutile", "cutedsl", "rocm", "xpu"),
    ),
    Rule(
        Verb.fuse,
        "Cut a whole model into parts, write and prove a kernel for each, and compose and prove the whole, on a pull request.",
        "/kernel fuse src/model.py:Block",
        (
            Argument(
                ArgumentKind.model,
                "PATH[:SYMBOL]|URL",
                "the model: a file of the repository, or a link to one on this host; not needed if it is pasted",
            ),
        ),
        (_PART_AUTHOR, *_SEARCH[:2], _LAYOUT, _AUTO, _DRY_RUN),
        "a fenced Python block that holds the model, in the KernelBench form or as a problem file",
        suggested_for=("compose", "decompose", "split"),
    ),
    Rule(
        Verb.tune,
        "Find the launch settings of an existing kernel by measurement, and nothing else, on a pull request.",
        "/kernel tune rms_norm --gpu hopper",
        (_KERNEL, _PROBLEM),
        (_SCOPE, _TUNED_TO, _GPU, _LAYOUT, _AUTO, _DRY_RUN),
        synonyms=("autotune", "auto-tune"),
        suggested_for=("tuning",),
    ),
    Rule(
        Verb.profile,
        "Measure an existing kernel, and report what bounds it and what could be tried; nothing is changed.",
        "/kernel profile cross_entropy --scope large",
        (_KERNEL, _PROBLEM),
        (_SCOPE, _GPU, _LAYOUT, _DRY_RUN),
        synonyms=("analyze", "analyse", "diagnose"),
    ),
    Rule(
        Verb.bench,
        "Measure whether a pull request makes kernels faster or slower than its merge base.",
        "/kernel bench rms_norm layer_norm --against main",
        (_KERNELS,),
        (_AGAINST, _GPU, _DRY_RUN),
        synonyms=("benchmark", "measure", "compare"),
        suggested_for=("time", "race", "perf-test"),
    ),
    Rule(
        Verb.verify,
        "Prove the kernels of a pull request against their references.",
        "/kernel verify rms_norm",
        (_KERNELS,),
        (_GPU, _DRY_RUN),
        synonyms=("check", "prove", "test"),
        suggested_for=("validate", "correctness"),
    ),
    Rule(
        Verb.nightly,
        "Measure every kernel of the default branch, keep the numbers, and compare what changed with the last good commit.",
        "/kernel nightly",
        (
            Argument(
                ArgumentKind.kernels,
                "NAME ...",
                f"the kernels, at most {MAX_KERNELS}; all that can be proved by default",
            ),
        ),
        (_GPU, _DRY_RUN),
    ),
    Rule(
        Verb.bisect,
        "Find the commits that made a kernel slower or larger: each step runs two commits interleaved.",
        "/kernel bisect rms_norm 1f2e3d4..9a8b7c6",
        (
            _NAMED_KERNEL,
            Argument(
                ArgumentKind.range,
                "GOOD..BAD",
                "a commit, branch or tag that is fast, and a later one that is not",
                required=True,
            ),
        ),
        (_GPU, _DRY_RUN),
        suggested_for=("culprit", "blame"),
    ),
    Rule(
        Verb.triaged,
        "Accept the regression that an issue of the nightly run reports: the current measurements become the new base.",
        "/kernel triaged needed for inputs of any stride",
        (Argument(ArgumentKind.text, "REASON", "why it is accepted; may continue on the next lines", required=True),),
    ),
    Rule(
        Verb.explain,
        "Show what is known of a kernel without a new job: its last numbers on each GPU, and the jobs about it.",
        "/kernel explain rms_norm",
        (Argument(ArgumentKind.kernel, "NAME", "the kernel, by its name in jobs and nights", required=True),),
        synonyms=("describe", "about"),
        suggested_for=("info", "show", "history"),
    ),
    Rule(
        Verb.status,
        "Show the state of a job.",
        "/kernel status",
        (_JOB,),
        synonyms=("progress", "state", "jobs"),
    ),
    Rule(
        Verb.cancel,
        "Stop a job. What was pushed stays.",
        "/kernel cancel",
        (_JOB,),
        synonyms=("stop", "abort"),
        suggested_for=("kill", "end", "close"),
    ),
    Rule(
        Verb.retry,
        "Resume a stopped job from the stage in which it stopped.",
        "/kernel retry",
        (_JOB,),
        synonyms=("rerun", "re-run", "resume", "restart"),
        suggested_for=("continue", "again", "repeat"),
    ),
    Rule(
        Verb.approve,
        "Approve a checkpoint where GitHub does not let you review.",
        "/kernel approve 1f2e3d4",
        (
            Argument(
                ArgumentKind.sha, "SHA", "the commit that the checkpoint names, at least 7 digits of it", required=True
            ),
        ),
        suggested_for=("accept", "lgtm", "ok", "okay", "yes", "go", "merge", "apply"),
    ),
    Rule(
        Verb.revise,
        "Run the stage before the checkpoint again, with your feedback.",
        "/kernel revise keep the row in registers, and round once at the end",
        (
            Argument(
                ArgumentKind.text, "TEXT", "what should be different; may continue on the next lines", required=True
            ),
        ),
        suggested_for=("reject", "redo", "no", "request-changes", "feedback"),
    ),
    Rule(
        Verb.help,
        "Show the commands, or one of them in full.",
        "/kernel help create",
        (Argument(ArgumentKind.verb, "VERB", "the command to show"),),
        synonyms=("commands", "usage"),
        suggested_for=("h", "?", "gpu", "options", "version", "list"),
    ),
)

VERBS = tuple(rule.verb.value for rule in GRAMMAR)
# Words of a sentence around a name, and words that begin what is said about it.
FILLERS = (
    *("a", "an", "the", "our", "my", "new", "existing", "kernel", "kernels", "called", "named", "for", "please", "me"),
    *("fast", "faster", "efficient", "optimized", "triton"),
)
PROSE = ("that", "which", "to", "of", "with", "this", "it", "and", "in", "on")
OPTION_NAMES = tuple(dict.fromkeys(option.name for rule in GRAMMAR for option in rule.options))


def verb_of(word: str) -> Verb | None:
    """The verb that a word is, in any case: its own name or a synonym; None where it is neither."""
    plain = word.lower().replace("_", "-")
    return next((rule.verb for rule in GRAMMAR if plain == rule.verb.value or plain in rule.synonyms), None)


def meant_verb(word: str, others: Sequence[str] = ()) -> str | None:
    """The verb that was probably meant by a word that is none, with those behind it; None where nobody can tell."""
    plain = word.lower().lstrip("-")[:64]
    listed = next((rule.verb.value for rule in GRAMMAR if plain in rule.suggested_for), None)
    # "make geglu faster"; whoever says no more than "make geglu" has no such kernel yet.
    sought = {other.lower().strip(".,:;!?") for other in others}.intersection(rule_of(Verb.optimize).suggested_for)
    if sought and listed in (None, Verb.create.value):
        return Verb.optimize.value
    if listed == Verb.create.value and _is_to_behave(others):
        return Verb.modify.value
    near = listed or nearest(plain, (*VERBS, *(word for rule in GRAMMAR for word in rule.synonyms)))
    return None if near is None else (verb_of(near) or Verb.help).value


def _is_to_behave(words: Sequence[str]) -> bool:
    """Whether a name comes first and what it shall do behind it, as in "make geglu take a bias"; "a geglu ..." is a new one."""
    name, behind = (word.lower() for word in (*words, "", "")[:2])
    return name not in FILLERS and behind.isalpha() and behind not in (*FILLERS, *PROSE, "from")


def rule_of(verb: Verb) -> Rule:
    """The rule of a verb."""
    return next(rule for rule in GRAMMAR if rule.verb is verb)


def nearest(word: str, choices: tuple[str, ...]) -> str | None:
    """The choice that was probably meant; None where none is near."""
    matches = get_close_matches(word.lower()[:64], choices, n=1, cutoff=0.6)
    return matches[0] if matches else None


def architecture(text: str) -> str | None:
    """The architecture that a person named, such as ``sm_90`` for ``H100`` or ``sm90``; None where it is unknown."""
    word = text.strip().lower().replace("-", "_")
    if (consumer := GEFORCE.fullmatch(word)) is not None:
        return GEFORCE_SERIES[consumer["series"]]
    model = GPU_NAME.fullmatch(word)
    word = GPU_MODELS.get(model["model"], word) if model else word
    if (spelt := re.fullmatch(r"(?:sm|cc)?_?(?P<major>\d{1,2})\.?(?P<minor>\d[a-z]?)", word)) is not None:
        word = f"sm_{spelt['major']}{spelt['minor']}"
    return word if ARCHITECTURE.fullmatch(word) else None
