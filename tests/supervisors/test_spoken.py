from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.spoken import guess_language, known_languages

SENTENCES = {
    "en": "The weather is mild today and the harbour is quiet.",
    "de": "Wie backe ich ein Brot, und was brauche ich dafür?",
    "fr": "Comment faire du pain à la maison ?",
    "es": "¿Cómo puedo hacer pan en casa?",
    "it": "Come posso fare il pane in casa?",
    "pt": "Como é que eu faço pão em casa?",
    "nl": "Hoe bak ik een brood en wat heb ik daarvoor nodig?",
    "sv": "Hur bakar jag bröd och vad behöver jag?",
    "da": "Hvordan bager jeg brød, og hvad skal jeg bruge?",
    "no": "Hvordan baker jeg brød, og hva trenger jeg?",
    "fi": "Miten leipä tehdään ja mitä minä siihen tarvitsen, kun se on valmis?",
    "pl": "Napisz mi wiersz o tym, jak się piecze chleb.",
    "cs": "Jak se peče chléb a co na to potřebuji, když už je pozdě?",
    "ro": "Cum se face pâinea și ce trebuie să am pentru ea?",
    "hu": "Hogyan kell kenyeret sütni, és mi kell hozzá, ha nincs élesztő?",
    "tr": "Nasıl ekmek yaparım ve ne kadar sürer?",
    "id": "Bagaimana cara membuat roti yang enak untuk mereka di rumah?",
    "vi": "Làm thế nào để làm bánh mì ở nhà cho tôi và bạn?",
    "el": "Πώς φτιάχνω ψωμί;",
    "ru": "Как испечь хлеб?",
    "uk": "Як спекти хліб удома?",
    "ar": "كيف أصنع الخبز",
    "fa": "چگونه نان بپزم",
    "he": "איך אופים לחם",
    "hi": "रोटी कैसे बनाएं",
    "th": "ทำขนมปังอย่างไร",
    "ko": "빵 만드는 법",
    "ja": "パンの作り方を教えてください",
    "zh": "如何制作面包",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_is_placed(language: str) -> None:
    guess = guess_language(SENTENCES[language])
    assert guess.language == language
    assert guess.score >= 0.5
    assert language in known_languages()


@pytest.mark.parametrize(
    ("text", "language"), [("あーーーー", "ja"), ("々々", "zh"), ("ㄋㄧㄏㄠ", "zh"), ("እንዴት", "und")]
)
def test_letters_that_belong_to_no_script_of_a_table_are_placed(text: str, language: str) -> None:
    guess = guess_language(text)
    assert (guess.language, guess.score >= 0.5) == (language, True)


@pytest.mark.parametrize("text", ["", "3.14159 + 2", "\U0001f642\U0001f642", "x = [] or {}", "Chicago, Denver, Tampa"])
def test_what_is_no_running_text_is_not_placed(text: str) -> None:
    assert guess_language(text).score < 0.5


def test_invisible_characters_do_not_hide_a_language() -> None:
    hidden = "\u200b".join("Wie backe ich ein Brot, und was brauche ich dafür?")
    assert guess_language(hidden).language == "de"


def test_letters_are_counted_once_a_letter() -> None:
    assert guess_language("a1b2 c!").letters == 3
    assert guess_language("Ж1").letters == 1


@given(st.text(alphabet=st.sampled_from("abcdeäöüßéñÀØ¿¡' .,12_-×²½ªµÿ"), max_size=60))
def test_text_in_latin_1_is_read_as_any_other(text: str) -> None:
    found, hidden = guess_language(text), guess_language(text + "\u00ad")  # what nobody sees takes the other way
    assert (found.language, found.letters) == (hidden.language, hidden.letters)
    assert found.score == pytest.approx(hidden.score)


@pytest.mark.parametrize("language", SENTENCES)
def test_what_nobody_sees_changes_no_guess(language: str) -> None:
    found, hidden = guess_language(SENTENCES[language]), guess_language(SENTENCES[language] + "\u00ad")
    assert found.language == hidden.language
    assert found.score == pytest.approx(hidden.score)
