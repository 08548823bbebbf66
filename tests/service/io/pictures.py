"""A picture that is one as far as anybody looks."""

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64
