"""What a target says: where its operators live, how one is written, judged and exported, and what this host cannot show. Pure."""

from __future__ import annotations

from typing import Protocol

from gpu_runner.contracts import CandidateSource, Problem
from workers.authors.protocol import SourceStyle
from workers.contracts import FileChange, KernelTiling
from workers.layouts.protocol import ExistingKernel
from workers.targets.contract import ApiContract
from workers.targets.module import PortedModule
from workers.targets.uses import ImportedName
from workers.tree import Tree


class PortOrigin(Protocol):
    """An implementation whose API a port takes over. What cannot be done raises ``UserFacingError``."""

    @property
    def name(self) -> str:
        """Of the command's option."""
        ...

    def contract(self, kernel: ExistingKernel, problem: Problem, tree: Tree) -> ApiContract:
        """The API of its operator."""
        ...

    def unported(self, kernel: ExistingKernel, contract: ApiContract, tree: Tree) -> tuple[str, ...]:
        """Other Functions of that operator's file, of which the port has none."""
        ...


class PortTarget(PortOrigin, Protocol):
    """A device and a language that a library's operators are ported to."""

    @property
    def language(self) -> str:
        """As reports say it."""
        ...

    @property
    def buffer_bits(self) -> int:
        """Of the memory that holds a program's tiles; 0 where a launcher asks for none."""
        ...

    @property
    def cores(self) -> int:
        """For how many of the device's cores tilings are counted; 0 where there are none."""
        ...

    @property
    def contiguous(self) -> str:
        """The line that imports the decorator of forward and backward."""
        ...

    @property
    def impossible_here(self) -> tuple[str, ...]:
        """What only a host with the device can say, a sentence each."""
        ...

    def path(self, kernel: ExistingKernel) -> str:
        """The file of a port."""
        ...

    def module(self, kernel: ExistingKernel) -> str:
        """The module of a port."""
        ...

    def test_path(self, name: str) -> str:
        """The file of the test of a port's API."""
        ...

    @property
    def schedules(self) -> str:
        """The compiler author's schedules that write a kernel for it; those of its own name where it is empty."""
        ...

    @property
    def has_settings(self) -> bool:
        """Whether launchers of a port can look settings up that were measured."""
        ...

    def check(self, kernel: ExistingKernel, tree: Tree, *, existing: bool = False) -> None:
        """Whether the repository has this target and no port of the kernel yet, unless an ``existing`` one is meant."""
        ...

    def used(self, kernel: ExistingKernel, tree: Tree) -> tuple[ImportedName, ...]:
        """What other files of the package import of a port's module."""
        ...

    def stays(self, kernel: ExistingKernel, tree: Tree) -> tuple[ImportedName, ...]:
        """What files outside of implementations import of the default operator's module."""
        ...

    def problems(self, kernel: ExistingKernel, tree: Tree) -> tuple[tuple[str, str], ...]:
        """The calls to port, by name, each as a problem's source; empty where the library's own problem is the only one."""
        ...

    def backward(self, kernel: ExistingKernel) -> str | None:
        """The problem of a backward pass that others call with what forward returned; None where the port's own will do."""
        ...

    def style(self, name: str, *, backward: bool = False) -> SourceStyle:
        """The style in which the author writes a section of the port, or the section of a ``backward`` problem."""
        ...

    def free(self, contract: ApiContract) -> tuple[str, ...]:
        """Parameters that choose memory or launches, and change no values."""
        ...

    def changes(
        self, kernel: ExistingKernel, module: PortedModule, contract: ApiContract, tree: Tree
    ) -> tuple[FileChange, ...]:
        """The files of a port: the operator, its export, its test."""
        ...

    def form(
        self, kernel: ExistingKernel, problem: Problem, changes: tuple[FileChange, ...], tree_file: str
    ) -> CandidateSource:
        """The port for the runner, with a stand-in for what only the device has."""
        ...

    def tilings(self, problem: Problem, source: str) -> tuple[KernelTiling, ...]:
        """The tiles of a port's kernels at the problem's sizes."""
        ...
