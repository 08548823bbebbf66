"""The commands: one grammar table, a parser that reads markdown as GitHub does, and what people meant. Pure."""

from service.commands.command import Command, CommandError, ErrorCode, GivenOptions, ParsedComment
from service.commands.markdown import find_problem_block
from service.commands.names import NameFault, check_name
from service.commands.parser import parse_comment, resolve_problem
from service.commands.permalink import LinkFault, Permalink, parse_permalink
from service.commands.render import render

__all__ = [
    "Command",
    "CommandError",
    "ErrorCode",
    "GivenOptions",
    "LinkFault",
    "NameFault",
    "ParsedComment",
    "Permalink",
    "check_name",
    "find_problem_block",
    "parse_comment",
    "parse_permalink",
    "render",
    "resolve_problem",
]
