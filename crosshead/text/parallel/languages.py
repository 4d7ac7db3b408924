"""Language codes and names, in file suffixes, column names and pages."""

import functools
import re
import unicodedata

_ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv
cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr
ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw
ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv
ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr
ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi
yo za zh zu
"""

_ISO_639_2 = """
aar abk ace ach ada ady afa afh afr ain aka akk alb ale alt amh ang anp ara arc arg arm
arn arp arw asm ast ava ave awa aym aze bak bal bam ban baq bas bej bel bem ben bho bih
bik bin bis bla bod bos bra bre bua bug bul bur byn cad car cat ceb ces cha chb che chg
chi chk chm chn cho chp chr chu chv chy cnr cop cor cos cre crh csb cym cze dak dan dar
del den deu dgr din div doi dsb dua dum dut dyu dzo efi egy eka ell elx eng enm epo est
eus ewe ewo fan fao fas fat fij fil fin fon fra fre frm fro frr frs fry ful fur gaa gay
gba geo ger gez gil gla gle glg glv gmh goh gon gor got grb grc gre grn gsw guj gwi hai
hat hau haw heb her hil hin hit hmn hmo hrv hsb hun hup hye iba ibo ice ido iii iku ile
ilo ina ind inh ipk isl ita jav jbo jpn jpr jrb kaa kab kac kal kam kan kas kat kau kaw
kaz kbd kha khm kho kik kin kir kmb kok kom kon kor kos kpe krc krl kru kua kum kur kut
lad lah lam lao lat lav lez lim lin lit lol loz ltz lua lub lug lui lun luo lus mac mad
mag mah mai mak mal man mao mar mas may mdf mdr men mga mic min mkd mlg mlt mnc mni moh
mon mos mri msa mus mwl mwr mya myv nap nau nav nbl nde ndo nds nep nia niu nld nno nob
nog nor nqo nso nwc nya nym nyn nyo nzi oci oji ori orm osa oss ota pag pal pam pan pap
pau peo per phn pli pol pon por pro pus que raj rap rar roh rom ron rum run rup rus sad
sag sah sam san sas sat scn sco sel sga shn sid sin slk slo slv sma sme smj smn smo sms
sna snd snk sog som sot spa sqi srd srn srp srr ssw suk sun sus sux swa swe syc syr tah
tam tat tel tem ter tet tgk tgl tha tib tig tir tiv tkl tlh tli tmh tog ton tpi tsi tsn
tso tuk tum tur tvl twi tyv udm uga uig ukr umb urd uzb vai ven vie vol vot wal war was
wel wln wol xal xho yao yap yid yor zap zbl zen zgh zha zho zul zun
"""
"""Codes without language groups and without `new` (Newari), which is an English word in names."""

_LANGUAGES = frozenset(f"{_ISO_639_1} {_ISO_639_2}".split())

_USUAL_NAMES = {
    "bn": "Bengali", "nb": "Norwegian", "tl": "Tagalog", "zh-hans": "Chinese",
    "zh-hant": "Chinese (traditional)",
}  # fmt: skip
"""The names of languages in Argos Translate and LibreTranslate, where langcodes has another one."""

_NAMED_IN = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "ru")
"""Languages in which the name of a language is recognised, besides the language itself."""

_CODE = re.compile(r"([a-z]{2,3})([-_]([A-Z][a-z]{3}|[A-Za-z]{2}|[0-9]{3}))?")
"""A language, optionally followed by a script or a region."""

_CAPITALS = re.compile(
    r"^([A-Z]{2,3}(?:[-_][A-Z]{2})?)$|[(\[]([A-Z]{2,3}|[A-Za-z]{2,3}[-_][A-Z]{2})[)\]]"
)
"""A code in capitals or with a region: the whole name of a column, or between brackets."""

_NO_CODES = frozenset(
    ["mt", "sl", "st", "tl", "tt", "br", "ca", "ch", "ee", "ie", "kr", "lu", "se", "tw", "uk"]
)
"""Codes that in capitals stand for a machine translation, for the source or target language or
text, or for a country."""

_NO_WORD = re.compile(r"""[\s_()\[\]{}<>/\\|,.;:!?*+#"'‘’“”„«»-]+""")
"""The signs and spaces between the words of a name."""

_FROM = re.compile(r"(?<![^\W_])(?:from[\s_]+|(?:aus|von|de|du|del)\s+)([^\W_]+)")
"""The name of the language of the original, after one of these words."""


@functools.cache
def codes_of_names() -> dict[str, str]:
    """Return the codes of languages by their names of one word, in small letters."""
    import langcodes

    found: dict[str, str] = {}
    for code in _ISO_639_1.split():
        language = langcodes.Language.get(code, normalize=False)
        found |= {language.display_name(other).lower(): code for other in (code, *_NAMED_IN)}
    return {name: code for name, code in found.items() if name not in _LANGUAGES}


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    import langcodes

    if name := _USUAL_NAMES.get(code.lower()):
        return name
    return langcodes.get(code).display_name() if langcodes.tag_is_valid(code) else code


def looks_like_code(name: str) -> bool:
    """Return whether a name has the form of a language code (BCP 47), listed or not."""
    return _CODE.fullmatch(name) is not None


def language_code(name: str) -> str | None:
    """Return a name as a language code, or None if it is not one.

    `en`, `deu`, `pt_BR` and `zh-Hans` are codes. `txt`, `tsv` and `src` are not, because no
    standard list of languages contains them. An underscore becomes a hyphen, as in BCP 47.
    """
    found = _CODE.fullmatch(name)
    if found is None or found[1] not in _LANGUAGES:
        return None
    return name.replace("_", "-")


def column_language(name: str) -> str | None:
    """Return the language code of a column or a JSON key, or None.

    The name is a code, or one of its words is the name of a language: `en`, `text.en`, `English`,
    `English (UK)`, `German sentence` or `source_english`. Without such a word, a code in capitals
    or with a region counts if it is the whole name or stands between brackets: `EN`, `Text (EN)`
    or `Text [pt-BR]`. Other codes do not count, because `id` in `row_id` is no language. The
    language of an original does not count either: `Translation from English` gives None.
    """
    name = unicodedata.normalize("NFC", name)
    if code := language_code(name.rpartition(".")[2]):
        return code
    words = set(_NO_WORD.split(_FROM.sub("", name.lower())))
    if found := {codes_of_names()[word] for word in words & codes_of_names().keys()}:
        return found.pop() if len(found) == 1 else None
    if (found_code := _CAPITALS.search(name)) is None:
        return None
    language, *region = re.split("[-_]", (found_code[1] or found_code[2]).lower())
    if not region and language in _NO_CODES:
        return None
    return language_code("-".join([language, *map(str.upper, region)]))


def suffix_language(name: str) -> str | None:
    """Return the language code at the end of a file name, or None.

    Suffixes such as `.gz` and `.txt` are skipped: `train.en.gz` and `train.en.txt` both give `en`.
    """
    parts = name.rpartition("/")[2].split(".")[1:]
    while parts and parts[-1] in _NO_LANGUAGES:
        parts.pop()
    return language_code(parts[-1]) if parts else None


def contradict(one: str | None, other: str | None) -> bool:
    """Return whether two language codes differ in their language.

    `pt` and `pt-BR` do not. `de` and `deu` do not either: a code of two letters is not compared
    with one of three. Two codes of one language, such as `no` and `nb`, do differ.
    """
    if one is None or other is None:
        return False
    left, right = one.partition("-")[0], other.partition("-")[0]
    return left != right and len(left) == len(right)


_NO_LANGUAGES = frozenset({"gz", "txt", "tok", "bpe", "lc", "clean"})
"""Suffixes that may follow a language code."""
