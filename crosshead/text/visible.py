"""Characters that the eye cannot see, which must not change what a model reads.

White space of every kind is a space, and so are control characters. Marks that only direct how a
text is shown are left out: soft hyphens, zero-width spaces, byte order marks, directional marks,
variation selectors, fillers of Hangul. The joiners U+200C and U+200D stay behind letters of the
scripts that join or stack letters, such as Arabic and Devanagari, where they change letters.
"""

import regex

_SPACES = regex.compile(r"[\s\p{Cc}]++")
_LEFT_OUT = regex.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
    r"|(?<![\p{L}\p{M}])[\u200c\u200d]+"
    r"|(?<=[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}])[\u200c\u200d]+"
)


def visible(text: str) -> str:
    """Return a line of text as a person sees it."""
    if text.isprintable():  # without control characters, and without spaces other than " "
        return text if text.isascii() else str(_LEFT_OUT.sub("", text))
    # A mark may have joined two spaces, so that it goes first.
    spaces = _SPACES.sub(lambda run: " " if run[0].strip(" ") else run[0], _LEFT_OUT.sub("", text))
    return str(spaces)
