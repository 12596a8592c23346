"""Words, sentences and blocks out of which the answers of the loop tests are made."""

from itertools import pairwise
from random import Random


def _words(text: str) -> list[str]:
    return text.split()


_SMALL = _words(
    "the of and to in a is that for it as was with be by on not he his but at are this have from "
    "or had an they which one you were all her she there would their we him been has when who will"
)

_LARGE = _words(
    "account action agency amount analysis annual answer archive area army article assembly author "
    "balance bank basin battery board border bottle branch bridge budget building cabinet canal "
    "capital carbon cargo castle cattle century chamber chapter charge church circuit citizen clay "
    "client climate coal coast college colony column committee company contract copper corner cost "
    "cotton council county court credit crew culture current curve danger data debt decade degree "
    "delta density deposit design desert device district doctor domain drawing dust earth economy "
    "edge editor effect election element emperor energy engine entry estate estimate evidence "
    "example exchange expense expert export fabric factory failure family farmer fever field "
    "figure finance fish flame flood flow foreign forest formula fortune frame freight garden gas "
    "gate general glass govern grain gravity ground growth guide harbour harvest health heat "
    "height history hospital house hunter image income index industry insect iron island journal "
    "judge kingdom labour lake language law leader leather length letter level library light limit "
    "liquid local lower machine magnet manager mantle margin marine market matter measure medical "
    "member metal method middle military mineral mission model modern monarch motion mountain "
    "nation native nature network normal northern number object ocean office officer opinion orbit "
    "order organ origin output owner oxygen palace panel paper parish patient pattern payment "
    "people period phase pilot plain planet plant plate poem police policy population port power "
    "pressure price prince problem process product profit protein province public quality quarter "
    "radio railway rain range rate reaction record reform region remains report research reserve "
    "result revenue river road rock root salt sample school science season section sediment senate "
    "series service session settler shadow shape share ship signal silver single slope social soil "
    "soldier solution source southern species spring square stage standard station steam steel "
    "stone storm strategy stream street student subject sugar summer supply surface survey symbol "
    "system tax teacher temple tenant theory timber tissue tower trade treaty tribe tunnel union "
    "upper valley value vector vessel village virus volume voyage wage water wave weather western "
    "wheat winter witness wood worker writer yield zone"
)

_SYLLABLES = _words(
    "ba ber chan dor el far gan hol is jor kel lin mar nor os pel ran sel tor ul vin wes"
)

CHINESE = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面"
    "而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把"
    "性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质"
)
RUSSIAN = _words(
    "и в не на что с по как это все его при от для или был была были году города завод книга "
    "область развитие система работа время человек народ страна закон право вопрос история наука "
    "результат процесс метод значение энергия температура вода земля дорога река промышленность "
    "сельское хозяйство производство общество культура язык школа университет исследование анализ"
)
GERMAN = _words(
    "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an "
    "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über Gesellschaft "
    "Entwicklung Regierung Wirtschaft Verfahren Ergebnis Untersuchung Jahrhundert Geschichte Stadt "
    "Landschaft Maschine Energie Verwaltung Vertrag Gesetz Bevölkerung Wissenschaft Bedeutung"
)
ARABIC = _words(
    "في من على إلى أن هذا التي الذي كان مع عن ما هو هي بين كل بعد قبل عند المدينة الدولة الحكومة "
    "التاريخ العلم الكتاب القانون الماء الأرض العمل النظام المجتمع الثقافة اللغة المدرسة الجامعة"
)


def term(rng: Random) -> str:
    return rng.choice(_LARGE)


def name(rng: Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=rng.randint(2, 3))).capitalize()


def title(rng: Random, least: int = 2, most: int = 5) -> str:
    return " ".join(rng.choices(_LARGE, k=rng.randint(least, most))).capitalize()


def sentence(rng: Random, least: int = 8, most: int = 24) -> str:
    words = [_word(rng) for _ in range(rng.randint(least, most))]
    if len(words) > 12 and rng.random() < 0.5:
        words[len(words) // 2] += ","
    text = " ".join(words)
    return text[0].upper() + text[1:] + rng.choice("......?;")


def paragraph(rng: Random, characters: int = 600) -> str:
    sentences = [sentence(rng)]
    while sum(map(len, sentences)) + len(sentences) < characters:
        sentences.append(sentence(rng))
    return " ".join(sentences)


def money(rng: Random, most: int = 999_999) -> str:
    return f"{rng.randint(1, most):,}"


def foreign(rng: Random, words: list[str], count: int) -> str:
    text = " ".join(rng.choices(words, k=count))
    return text[0].upper() + text[1:] + "."


def chinese(rng: Random, characters: int) -> str:
    return "".join(rng.choices(CHINESE, k=characters)) + "。"


def box(left: int, top: int, right: int, bottom: int) -> str:
    return f"<|det|>[[{left}, {top}, {right}, {bottom}]]<|/det|>"


def block(label: str, place: str, text: str) -> str:
    return f"<|ref|>{label}<|/ref|>{place}\n{text}  \n\n"


def grounded(rng: Random, texts: list[str], label: str = "text") -> str:
    """The texts as blocks of a DeepSeek-OCR answer, one under the other."""
    tops = sorted(rng.sample(range(40, 960), len(texts) + 1))
    left = rng.randint(60, 140)
    places = [box(left, top, rng.randint(700, 940), bottom - 1) for top, bottom in pairwise(tops)]
    return "".join(block(label, *pair) for pair in zip(places, texts, strict=True))


def prose(rng: Random, characters: int) -> str:
    """Paragraphs, as plain Markdown or as grounded blocks."""
    texts: list[str] = []
    while sum(map(len, texts)) < characters:
        texts.append(paragraph(rng, rng.randint(100, 900)))
    if rng.random() < 0.6:
        return grounded(rng, texts)
    return f"# {title(rng)}\n\n" + "".join(f"{text}\n\n" for text in texts)


def html_row(cells: list[str]) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def html_table(rows: list[list[str]]) -> str:
    return "<table>" + "".join(map(html_row, rows)) + "</table>"


def markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    rule = "|" + "---|" * len(rows[0])
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def _word(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.45:
        return rng.choice(_SMALL)
    return rng.choice(_LARGE) if chance < 0.92 else name(rng)
