"""Private text in URLs and queries, in any disguise."""

import base64
import codecs
import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import cycle, product
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from activities.tools.pages import leak_check
from activities.tools.pages.leak_check import LEAST_CHARACTERS, carries, hides, repeats
from tests.parameters import first_fast
from tests.simulation.budget import settings_for

SECRET = "Renewal of the Nordhafen lease: 48,250 EUR"

PLAIN: dict[str, Callable[[str], str]] = {
    "words": lambda text: quote(text, safe=""),
    "upper case": lambda text: quote(text.upper(), safe=""),
    "dashes": lambda text: quote("-".join(text), safe=""),
    "percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent twice": lambda text: quote("".join(f"%{byte:02X}" for byte in text.encode()), safe=""),
    "base64": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 unquoted": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 within a text": lambda text: base64.urlsafe_b64encode(f"a{text}b".encode()).decode().rstrip("="),
    "base32": lambda text: base64.b32encode(text.encode()).decode().rstrip("=").lower(),
    "hexadecimal": lambda text: text.encode().hex(),
    "upper hexadecimal": lambda text: f"0{text.encode().hex().upper()}",
    "hexadecimal in base64": lambda text: base64.urlsafe_b64encode(text.encode().hex().encode()).decode().rstrip("="),
    "base64 in base32": lambda text: base64.b32encode(base64.b64encode(text.encode())).decode().rstrip("="),
    "UTF-16 in hexadecimal": lambda text: text.encode("utf-16-le").hex(),
}
PLACES: dict[str, Callable[[str], str]] = {
    "user": lambda sent: f"https://{sent.replace('/', '%2F')}@e.example/",
    "password": lambda sent: f"https://u:{sent.replace('/', '%2F')}@e.example/",
    "path": lambda sent: f"https://e.example/p/{sent}/i.png",
    "path in pieces": lambda sent: "https://e.example/" + "/".join(sent[at : at + 5] for at in range(0, len(sent), 5)),
    "query": lambda sent: f"https://e.example/?q={sent.replace('+', '%2B')}&page=1",
    "name in query": lambda sent: f"https://e.example/?a=1&{sent}",
    "query in pieces": lambda sent: (
        "https://e.example/?" + "&".join(f"k{at}={sent[at : at + 7]}" for at in range(0, len(sent), 7))
    ),
    "address in query": lambda sent: "https://e.example/?to=" + quote(PLACES["query in pieces"](sent), safe=""),
    "fragment": lambda sent: f"https://e.example/#{sent}",
    "another scheme": lambda sent: f"ftp://e.example/{sent}",
    "no URL": lambda sent: f"https://[e.example:x/{sent}",
}
HOST_SAFE = ("base32", "hexadecimal", "base64 in base32", "UTF-16 in hexadecimal")


def test_base64_with_slashes_is_found_in_split_paths() -> None:
    """A secret whose base64 contains many slashes is found in path segments of any length."""
    secret = "Whose??? is Ker??? the o?? 48? ab??? Nor??? haf??? ye??? cd?"
    digits = base64.b64encode(secret.encode()).decode()
    for length in range(3, 24):
        pieces = "/".join(digits[at : at + length] for at in range(0, len(digits), length))
        assert carries(f"https://e.example/{pieces}", [secret]) == secret, length


_WAYS = [[*zip(PLAIN, cycle(PLACES), strict=False)], [*product(PLAIN, PLACES)]]


@pytest.mark.parametrize("ways", first_fast(_WAYS, mark=pytest.mark.nightly))
def test_a_secret_is_found_in_every_part_and_encoding_of_a_url(ways: list[tuple[str, str]]) -> None:
    """It is found whole or in pieces, also in the host name, which DNS reveals to the host's owner."""
    urls = {(dress, place): PLACES[place](PLAIN[dress](SECRET)) for dress, place in ways}
    for dress in HOST_SAFE:
        sent = PLAIN[dress](SECRET)
        urls[dress, "host"] = f"https://{'.'.join(sent[at : at + 20] for at in range(0, len(sent), 20))}.e.example/"

    assert [way for way, url in urls.items() if carries(url, ["another text", SECRET]) != SECRET] == []


def test_words_in_the_name_of_a_host_are_found() -> None:
    """Spaces may be dots or dashes, and non-ASCII letters Punycode."""
    assert carries("https://the.nordhafen.lease.e.example/", [SECRET]) == SECRET
    assert carries("https://the-nordhafen-lease.e.example/", [SECRET]) == SECRET
    assert carries("https://" + "größenwahn".encode("idna").decode() + ".e.example/", ["Größenwahn"]) == "Größenwahn"


_letters = st.text(st.characters(codec="utf-8", categories=("Lu", "Ll", "Nd")), min_size=LEAST_CHARACTERS, max_size=40)
_noise = st.text("abcdefghijklmnopqrstuvwxyz0123456789-._~", max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(
    secret=_letters,
    before=_letters | st.just(""),
    dress=st.sampled_from(sorted(set(PLAIN) - {"upper case", "UTF-16 in hexadecimal"})),
    place=st.sampled_from(sorted(PLACES)),
    noise=_noise,
)
@example(secret="ßßßßßßßß", before="", dress="words", place="path", noise="")
def test_any_private_text_is_found_in_a_url(secret: str, before: str, dress: str, place: str, noise: str) -> None:
    """Neither its characters, nor its place in a longer private text, nor what precedes it in the URL matters."""
    url = PLACES[place](PLAIN[dress](secret)).replace("e.example", f"{noise.strip('-._~')}e.example", 1)
    private = f"{before} {secret} and more"
    # It cannot be told whether a slash is a base64 digit or was put between pieces.
    assume(place != "path in pieces" or "/" not in PLAIN[dress](secret))

    assert carries(url, [private]) == private


@given(
    words=st.lists(st.sampled_from(["tide", "harbour", "2026", "report", "q", "index.html", "en"]), max_size=8),
    private=st.lists(st.text("αβγδεζηθικλμνξο ", max_size=50), max_size=5),
)
def test_an_ordinary_url_is_allowed(words: list[str], private: list[str]) -> None:
    """A URL that shares no text with private content is sent."""
    assert carries("https://www.example/" + "/".join(words) + "?q=" + "+".join(words), private) is None


@settings_for(20)
@given(_letters, st.sampled_from(sorted(PLAIN)), st.sampled_from(sorted(PLACES)))
def test_text_from_the_users_request_is_allowed(text: str, dress: str, place: str) -> None:
    """The user's own question may be sent, even if a document contains it too."""
    assert carries(PLACES[place](PLAIN[dress](text)), [text], [text]) is None


@given(_letters)
def test_a_url_that_is_itself_private_is_found(text: str) -> None:
    """A private address is private, whatever its scheme."""
    assume(not text.startswith("xn--"))

    assert carries(f"https://{text}", [text]) == text


def test_matches_need_eight_characters() -> None:
    """Seven shared characters may be chance; eight are not."""
    assert carries("https://e.example/?q=4825017", ["4825017 EUR"]) is None
    assert carries("https://e.example/?q=48250171", ["48250171 EUR"]) == "48250171 EUR"


def test_a_url_with_too_many_decodings_is_refused() -> None:
    """Decoding is limited, and what was not checked is not sent."""
    assert carries("https://e.example/" + "%2525" * 500_000, ["nothing of it"]) == "nothing of it"


ENCODINGS: dict[str, Callable[[str], str]] = {
    "percent": PLAIN["percent"],
    "percent twice": PLAIN["percent twice"],
    "base64": PLAIN["base64 unquoted"],
    "base64 for URLs": PLAIN["base64 for URLs"],
    "base32": PLAIN["base32"],
    "hexadecimal": PLAIN["hexadecimal"],
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "references": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "hexadecimal references": lambda text: "".join(f"&#x{ord(each):x};" for each in text),
    "escapes": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "byte escapes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "quoted-printable": lambda text: "".join(f"={byte:02X}" for byte in text.encode()),
    "code points": lambda text: " ".join(f"U+{ord(each):04X}" for each in text),
    "numbers": lambda text: " ".join(str(byte) for byte in text.encode()),
    "bits": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "gzip": lambda text: base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    "zlib": lambda text: base64.urlsafe_b64encode(zlib.compress(text.encode())).decode(),
    "split": " ".join,
    "invisible": "\u200b".join,
    "groups": lambda text: " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
}
SPLITS = {"split", "invisible", "groups"}
"""Disguises that are undone only if nothing but letters and digits was split."""
SPLIT_BEFORE = {"base64 for URLs", "base32", "hexadecimal", "rot13", "reversed"}
WORDS = ("Nordhafen", "lease", "renewal", "Meridian", "merger", "payroll", "acquires", "forecast", "secret", "draft")


def encoded(text: str, chain: Sequence[str]) -> str:
    return reduce(lambda sent, name: ENCODINGS[name](sent), chain, text)


alone = sorted(set(ENCODINGS) - SPLITS)
chains = st.lists(st.sampled_from(alone), min_size=1, max_size=2) | st.tuples(
    st.sampled_from(sorted(SPLIT_BEFORE)), st.sampled_from(sorted(SPLITS))
).map(list)
texts = st.lists(st.sampled_from(WORDS), min_size=3, max_size=5).map(" ".join)


@settings_for(20)
@given(
    text=texts, chain=chains, around=st.sampled_from(("", "please look for {} in the news", "{} 2026", "price of {}"))
)
def test_nested_encodings_are_found(text: str, chain: list[str], around: str) -> None:
    """Two encodings in any order, or split ones, are found in a query among other words and in a URL."""
    sent = encoded(text, chain)
    assume(len(sent) < 1_000 and sent != text)
    query = around.format(sent) if around else sent

    assert repeats(query, ["nothing", text]) == text
    assert hides(query, ["nothing", text]) == text
    assert repeats(query, [text], [text]) is None
    if chain[-1] not in SPLITS:
        assert carries(f"https://e.example/x?q={quote(sent, safe='')}", [text]) == text


@settings(deadline=None)
@given(text=texts, dress=st.sampled_from([str.upper, str.title, "-".join, ", ".join, " ".join, str.strip]))
def test_private_words_in_a_query_are_found(text: str, dress: Callable[[str], str]) -> None:
    """Case and splitting do not matter; words of the user's request may be sent."""
    assert repeats(f"news about {dress(text)} today", [f"The {text}, 2026"]) is not None
    assert repeats(f"news about {dress(text)} today", [text], [f"What of {text}?"]) is None
    assert hides(f"news about {text} today", [text]) is None


def test_common_words_may_be_searched() -> None:
    """A document that mentions September does not make the month private; phrases and account numbers are."""
    cases = [
        ("ferry prices in September", ["Introduction", "September", "passengers", "Switzerland"], False),
        ("population of Switzerland 2025-11-21", ["Switzerland", "2025-11-21", "2025"], False),
        ("internationalisation of ports", ["internationalisation"], False),
        ("annual report of Nordic ferries", ["Ferry lines", "Nordic"], False),
        ("annual report of Nordic ferries", ["Annual reports of Nordic"], True),
        ("who owns DE89370400440532013000", ["IBAN: DE89 3704 0044 0532 0130 00"], True),
        ("who owns CANARY1f3k9q2m5", ["CANARY1f3k9q2m5x8w"], True),
    ]

    assert [case for case in cases if bool(repeats(case[0], case[1])) is not case[2]] == []


@settings(deadline=None)
@given(st.text(st.characters(), max_size=200) | st.text("%\\u0=&#x;1-9ADFadf+/ ", max_size=300))
def test_no_input_makes_the_check_fail(query: str) -> None:
    """Any text can be judged, including lone surrogates."""
    for check in (repeats, hides, carries):
        assert check(query, ["zzzzzzzzzzzz zzzz"]) in {None, "zzzzzzzzzzzz zzzz"}


@pytest.mark.slow
def test_decoding_work_is_linear_and_bounded() -> None:
    """A text ten times as long has about ten times as many readings, and never more than the limit."""
    for unit in ("A", "1 ", "\\u0041", "=41", "01", "&amp;", "65,", "xn--", "%41", " \t", "word ", "../"):
        sizes = [sum(map(len, leak_check.readings({unit * count}))) for count in (200, 2_000, 200_000)]
        assert sizes[1] <= 20 * max(sizes[0], 1_000), unit
        assert sizes[2] <= 2 * leak_check.MOST_CHARACTERS + 3 * len(unit) * 200_000, unit
