"""A door: secrets are taken out of whatever leaves a process, by the values that it holds and by the shapes that are known.

Logs, comments, pages, kept errors, recordings and questions to models all go through it. It is the last net, not the first: what
holds a secret should not be put there at all.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from html.entities import codepoint2name
from typing import Any
from unicodedata import category

LEAST_CHARACTERS = 8  # of a known value: a shorter one occurs in honest text; no form is shorter either
LEAST_LINE = 32  # of a known value of several lines, such as a private key: each such line is secret alone
REMEMBERED = 400  # characters of a text that is remembered as searched
ESCAPED = "\"'/$`"  # what a backslash may stand before, in JSON or a shell
CONTROL = {"\n": "n", "\r": "r", "\t": "t"}
DEEPEST = 12
CONFIGURED = "configured secret"
FILE = "base64"  # the name under which a JSON value holds a file

# Each has a bound on every repetition, so that no text makes the search slow. What a group holds stays.
FORMS: dict[str, re.Pattern[str]] = {
    "private key": re.compile(
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-(?!----)|-(?=-----END)){0,20000}-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:[\s>+|#*-]|\\n){0,40}(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{1,100}|[A-Za-z0-9+/=]{16,80})){0,400})"
    ),
    "private key of PuTTY": re.compile(
        r"Private-Lines: [0-9]{1,4}(?:(?:\r?\n|\\n)\s{0,20}[A-Za-z0-9+/=]{4,80}){1,200}"
    ),
    "GitHub token": re.compile(
        r"gh[pousr]_[A-Za-z0-9_]{0,40}eyJ[A-Za-z0-9_-]{8,4096}(?:\.[A-Za-z0-9_-]{8,8192}){0,2}"
        r"|gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{20,255}"
    ),
    "GitLab token": re.compile(
        r"(?<![A-Za-z0-9_])(?:GR1348941[A-Za-z0-9_-]{20}"
        r"|gl(?:pat|dt|rtr?|cbt|ptt|ft|soat|agent|oas|imt|ffct|wt)-[A-Za-z0-9_-]{20,255}(?:\.[a-z0-9]{2}\.[a-z0-9]{7,12})?)"
    ),
    "Anthropic key": re.compile(r"(?<![A-Za-z0-9_])sk-ant-[A-Za-z0-9_-]{16,255}"),
    "API key": re.compile(
        r"(?<![A-Za-z0-9_])(?:sk-(?:proj-|svcacct-|admin-|or-v1-)?(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,255}"
        r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{30,255}|gsk_[A-Za-z0-9]{30,255}"
        r"|xai-[A-Za-z0-9]{40,255}|nvapi-[A-Za-z0-9_-]{40,255}|pypi-AgE[A-Za-z0-9_-]{40,255}|npm_[A-Za-z0-9]{36}"
        r"|xox[abeoprs]-[A-Za-z0-9-]{10,255}|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}|dckr_pat_[A-Za-z0-9_-]{20,64}"
        r"|ya29\.[A-Za-z0-9_-]{20,2048}|whsec_[A-Za-z0-9+/=]{24,128}|dop_v1_[a-f0-9]{64}"
        r"|[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"
        r"|(?<![A-Za-z0-9_])(?:r8_[A-Za-z0-9]{30,60}|pplx-[A-Za-z0-9]{40,64}|csk-[A-Za-z0-9]{40,64}|tgp_v1_[A-Za-z0-9_-]{40,64}"
        r"|fw_(?=[A-Za-z]{0,30}[0-9])[A-Za-z0-9]{22,40}|rpa_[A-Za-z0-9]{40,64}|lsv2_(?:pt|sk)_[a-f0-9_]{40,60}|pcsk_[A-Za-z0-9_]{40,80}"
        r"|hv[sbr]\.[A-Za-z0-9_-]{24,300}|xapp-[0-9]-[A-Za-z0-9-]{20,255}|xoxe\.[A-Za-z0-9-]{20,255}|GOCSPX-[A-Za-z0-9_-]{28,40}"
        r"|ATATT3[A-Za-z0-9_=-]{20,255}|glsa_[A-Za-z0-9_]{32,64}|dapi[a-f0-9]{32}(?:-[0-9])?|dckr_oat_[A-Za-z0-9_-]{20,64}"
        r"|shp(?:at|ca|pa|ss)_[a-f0-9]{32}|lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,60}|figd_[A-Za-z0-9_-]{40,64}|sntrys_[A-Za-z0-9+/=_]{40,255}"
        r"|tskey-[a-z]{3,12}-[A-Za-z0-9-]{16,128}|dp\.(?:pt|st|ct|sa|scim)\.[A-Za-z0-9._-]{40,80}|sbp_[a-f0-9]{40}|NRAK-[A-Z0-9]{27}"
        r"|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}|ops_eyJ[A-Za-z0-9_-]{40,4096}|AGE-SECRET-KEY-1[A-Z0-9]{58}"
        r"|rubygems_[a-f0-9]{48}|bkua_[a-f0-9]{40}|pul-[a-f0-9]{40}|ph[xs]_[A-Za-z0-9]{40,60}|sntryu_[a-f0-9]{64}|sb_secret_[A-Za-z0-9_-]{20,60}"
        r"|sq0(?:csp|atp)-[A-Za-z0-9_-]{22,60}|EZ[AT]K[A-Za-z0-9]{54}|AKCp[A-Za-z0-9]{60,80}|CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}"
        r"|ABSK[A-Za-z0-9+/=]{80,200}|ATBB[A-Za-z0-9]{32}|glc_eyJ[A-Za-z0-9+/=]{40,400}|HRKU-AA[A-Za-z0-9_-]{58}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"
        r"|fm[12]_[A-Za-z0-9+/=,_-]{60,4096}|vercel_blob_rw_[A-Za-z0-9_]{20,80}|secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])|SK[a-f0-9]{32}(?![A-Za-z0-9])"
        r"|[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}|key-[a-f0-9]{32}(?![A-Za-z0-9])"
        r"|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-]))"
        r"|AccountKey=[A-Za-z0-9+/=]{40,128}|hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{20,128}"
        r"|discord(?:app)?\.com/api/webhooks/[0-9]{15,20}/[A-Za-z0-9_-]{60,80}|webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{40,300})"
    ),
    "AWS key": re.compile(
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9])"
        r"|(?i:aws_?secret_?access_?key)[\"'\s:=]{1,6}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
    ),
    "web token": re.compile(
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{4,4096}\.eyJ[A-Za-z0-9_-]{4,8192}\.[A-Za-z0-9_-]{8,2048}"
    ),
    "authorization": re.compile(
        r"[Aa](?i:uthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?)"
        r"(?:(?i:bearer|basic|token)\s{1,3}[A-Za-z0-9._~+/=-]{8,2048}"
        r"|(?:[A-Za-z-]{2,20}\s{1,3})?(?=[^\s0-9]{0,60}[0-9])[A-Za-z0-9._~+/=-]{20,2048})"
    ),
    "password in a URL": re.compile(
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:[^\s/@\"'<>]{1,200}@"
    ),
    "token before a host": re.compile(r"(://)(?=[^\s/@0-9]{0,40}[0-9])[A-Za-z0-9_.~-]{20,255}(?=@)"),
    "password for curl": re.compile(
        r"(curl\b[^\n]{0,200}?\s(?:-u|--user)[\s=]{0,2}[\"']?[^\s:\"']{1,100}:)[^\s\"']{4,200}"
    ),
    "password in .netrc": re.compile(r"(login\s{1,4}\S{1,100}\s{1,4}password\s{1,4})\S{4,200}"),
    "token in a URL": re.compile(
        r"(?i:(?<=[?&])(?:access_token|token|api[_-]?key|subscription-key|password|client_secret|sig|signature|x-amz-signature)=)[^&\s\"'<>]{1,2048}"
    ),
    # A name ends so, and the value looks as if drawn at random: no word of a language, no name in code.
    "named secret": re.compile(
        r"([DEHNRTYdehnrty](?=[\"']?[\s=:,]{1,6}>?\s{0,3}[\"']?[A-Za-z0-9+/=~-]{16})"
        r"(?:(?<=(?i:token))|(?<=(?i:secret))|(?<=(?i:password))|(?<=(?i:passwd))|(?<=(?i:passphrase))|(?<=(?i:bearer))|(?<=(?i:[_\"']auth))"
        r"|(?<=(?i:[a-z][_-]key))|(?<=(?i:apikey))|(?<=(?i:accesskey))|(?<=(?i:privatekey)))"
        r"[\"']?[\s=:,]{1,6}>?\s{0,3}[\"']?)"
        r"(?=[A-Za-z0-9+/=~-]{16})(?=[^\sA-Za-z]{0,24}[A-Za-z])"
        r"(?=(?:[A-Za-z+/=_.~-]{0,24}[0-9]){3}|(?=[^\s0-9]{0,40}[0-9])(?=[^\sa-z]{0,40}[a-z])[^\sA-Z]{0,40}[A-Z])"
        r"[A-Za-z0-9+/=_.~-]{20,2048}"
    ),
}
# What only logs are searched for: in code, which is sent to models and shown in comments, such a line is honest.
SECRET_NAME = re.compile(
    r"token|secret|passw(?:or)?d|authorization|(?:private|api|access)[_-]?key|credential|cookie|jwt|signature",
    re.IGNORECASE,
)
HEADER = re.compile(rf"[\w-]{{0,40}}(?:{SECRET_NAME.pattern})[\w-]{{0,40}}", re.IGNORECASE)  # the first of a pair
ASSIGNED = re.compile(
    r"(?i)((?:password|passwd|secret|token|(?:api|access|private)[_-]?key)s?(?:=|[\"']\s?[:=,]\s?)|\bbearer\s{1,3}"
    r"|\b(?:password|passwd|client[_-]secret|(?:api|access|private)[_-]?key|(?:set-)?cookie|x-[a-z-]{0,30}(?:key|token))s?:\s{1,3})"
    r"(?:\"[^\"\n]{1,2048}\"|'[^'\n]{1,2048}'|(?!\[redacted)[^\s\"',;&)}\]]{3,2048})"
)

_known: frozenset[str] = frozenset()


def know(values: Iterable[str]) -> None:
    """Register secrets that this process takes out of whatever leaves it, in each form in which they are written."""
    global _known  # noqa: PLW0603 - what a process holds is one set, whoever writes
    _known = _known | {value for value in values if len(value) >= LEAST_CHARACTERS}


def redact(text: str) -> str:
    """Text without any secret that this process knows, and without what has the shape of one."""
    if len(text) < LEAST_CHARACTERS:
        return text
    return _redacted_once(text, _known) if len(text) <= REMEMBERED else redacted(text, _known)[0]


@lru_cache(maxsize=8192)
def _redacted_once(text: str, secrets: frozenset[str]) -> str:
    # A page or a log says the same names again and again.
    return redacted(text, secrets)[0]


def secret_in(text: str) -> tuple[str, int] | None:
    """The kind of the first secret in a text and the line, from 1, on which it begins; None where there is none."""
    text = _visible(text)
    values = _values(_known)
    searched = [*([(CONFIGURED, values)] if values is not None else []), *FORMS.items()]
    places = [(match.start(), kind) for kind, form in searched if (match := form.search(text))]
    if not places:
        return None
    start, kind = min(places, key=lambda place: place[0])
    return kind, text.count("\n", 0, start) + 1


def _visible(text: str) -> str:
    """A text without invisible characters (Unicode category Cf), which a token that is copied from a page or a chat may hold."""
    return text if text.isascii() else "".join(character for character in text if category(character) != "Cf")


def redacted(text: str, secrets: Iterable[str] = ()) -> tuple[str, Counter[str]]:
    """The text with each secret replaced by the name of its kind, and how many there were.

    Where a secret is found, invisible characters are left out of the whole text, since they may stand within it.
    """
    values = _values(frozenset(secrets))
    seen, counts = _replaced_all(_visible(text), values)
    return (seen, counts) if counts else (text, counts)


def _replaced_all(text: str, values: re.Pattern[str] | None) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    if values is not None:
        text, times = values.subn(_stand_in(CONFIGURED), text)
        if times:
            counts[CONFIGURED] += times
    for kind, form in FORMS.items():
        text, times = form.subn(partial(_replaced, kind), text)
        if times:
            counts[kind] += times
    return text, counts


def redacted_json(value: Any, clean: Callable[[str], str] = redact) -> Any:
    """A JSON value with each string cleaned but the base64 of a file, which would be one no more; keys are the program's own."""
    if isinstance(value, dict):
        return {name: item if name == FILE else redacted_json(item, clean) for name, item in value.items()}
    if isinstance(value, list):
        return [redacted_json(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value


def redacted_event(value: object, depth: int = 0) -> object:
    """A log event or JSON value without secrets: keys, values at any depth, and objects by their names."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth < DEEPEST:
        return {
            redact(str(name)): _hidden(item) if SECRET_NAME.search(str(name)) else redacted_event(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset) and depth < DEEPEST:
        items = list(value)
        if len(items) == 2 and isinstance(items[0], str | bytes) and HEADER.fullmatch(_text(items[0])):
            return [redact(_text(items[0])), _hidden(items[1])]
        return [redacted_event(item, depth + 1) for item in items]
    return ASSIGNED.sub(rf"\1{_stand_in('secret')}", redact(_text(value)))


def _hidden(value: object) -> object:
    # How many tokens a model used is no secret.
    return value if value is None or isinstance(value, bool | int | float) else _stand_in("secret")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a line is not lost because of one value in it
        return f"<{type(value).__name__}>"


@lru_cache(maxsize=8)
def _values(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms: set[str] = set()
    for secret in secrets:
        encoded = {_base64(secret.strip(), before) for before in range(3)}
        forms |= {_wrapped(text) for text in encoded if len(text) >= LEAST_CHARACTERS}
        seen = _visible(secret)
        parts = {seen, seen.strip(), *(line for line in seen.splitlines() if len(line) >= LEAST_LINE)}
        forms |= {"".join(map(_spelled, part)) for part in parts if len(part) >= LEAST_CHARACTERS}
    # The longest first: one value may be the beginning of another.
    return re.compile("|".join(sorted(forms, key=len, reverse=True))) if forms else None


@lru_cache(maxsize=1024)
def _spelled(character: str) -> str:
    """The pattern of a character as it is, and as JSON, Python, HTML and addresses write it, one in another too.

    ``%2F``, ``%252f``; ``\\"``, ``\\\\\\"``; ``\\u00e9``, ``\\xc3\\xa9``; ``&quot;``, ``&amp;#34;``.
    """
    if character.isascii() and character.isalnum():
        return character
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    slashes, quoted = r"\\{1,16}", r"\\{0,16}" if character in ESCAPED else ""
    names = [f"#0{{0,6}}{code}", f"#[xX]0{{0,6}}{_either(f'{code:x}')}", *filter(None, [codepoint2name.get(code)])]
    units = character.encode("utf-16-be", "surrogatepass").hex()
    forms = [
        quoted + re.escape(character),
        rf"{quoted}&(?:amp;){{0,4}}(?:{'|'.join(names)});",
        "".join(rf"%(?:25){{0,4}}{_either(f'{byte:02x}')}" for byte in data),
        "".join(rf"{slashes}x{_either(f'{byte:02x}')}" for byte in data),
        rf"{slashes}x{_either(f'{code:02x}')}",
        "".join(rf"{slashes}u{_either(units[at : at + 4])}" for at in range(0, len(units), 4)),
    ]
    forms += {"\\": [slashes], " ": [r"\+"], **{c: [slashes + name] for c, name in CONTROL.items()}}.get(character, [])
    return f"(?:{'|'.join(forms)})"


def _either(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _wrapped(encoded: str) -> str:
    """The pattern of base64 in either alphabet, in lines of any length."""
    other = {"+": "[+-]", "/": "[/_]"}
    return r"(?:\s|\\n){0,2}".join(other.get(character, re.escape(character)) for character in encoded)


def _base64(text: str, before: int) -> str:
    """What every base64 has of a text with so many bytes (modulo 3) before it, such as a user's name and a colon."""
    data = text.encode("utf-8", "replace")
    encoded = base64.b64encode(bytes(before) + data).decode()
    return encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]


def _replaced(kind: str, found: re.Match[str]) -> str:
    return "".join(filter(None, found.groups())) + _stand_in(kind)


def _stand_in(kind: str) -> str:
    return f"[redacted: {kind}]"
