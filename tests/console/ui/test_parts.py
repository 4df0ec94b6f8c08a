"""The parts that pages are made of: what they enclose, and that names in them stay text."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, QueryDict
from django.template import Context, Template
from django.test import RequestFactory

from console.site.evidence import Evidence
from tests.console.markup import tight
from tests.console.stage import HOSTILE

NOW_MS = 1_795_000_000_000


def drawn(source: str, **values: object) -> str:
    return tight(Template("{% load ui %}" + source).render(Context(values)))


def test_a_sheet_has_a_title_a_sentence_and_who_said_it() -> None:
    html = drawn(
        '{% sheet title "progress" lead=lead evidence=evidence now_ms=now_ms %}<p>rows</p>{% endsheet %}',
        title=HOSTILE[1], lead="How far", evidence=Evidence("broker-a", NOW_MS - 2_000, True), now_ms=NOW_MS,
    )  # fmt: skip
    assert html.startswith('<section class="sheet" id="progress" aria-labelledby="progress-title"><header><h2 id="prog')
    assert HOSTILE[1] not in html
    assert "<p>How far</p>" in html
    assert "broker-a" in html
    assert html.endswith("</header><p>rows</p></section>")


def test_a_part_sees_nothing_of_its_page() -> None:
    assert "leak" not in drawn('{% sheet "Title" "one" %}{% endsheet %}', lead="leak", evidence="leak")


def test_the_head_of_a_page_has_acts_only_where_there_are_some() -> None:
    assert drawn('{% page_head "Topics" %}{% if no %}<a>1</a>{% endif %}{% endpage_head %}').count("<div") == 2
    assert '<div class="acts"><a>1</a></div>' in drawn('{% page_head "Topics" %}<a>1</a>{% endpage_head %}')


@pytest.mark.parametrize(("tone", "role"), [("", "note"), ("ruby", "alert"), ("plain", "note")])
def test_a_note_is_an_alert_where_something_failed(tone: str, role: str) -> None:
    assert f'role="{role}"' in drawn("{% note tone %}text{% endnote %}", tone=tone)


def test_a_figure_has_a_note_where_one_is_given_and_its_tone_says_how_grave_it_is() -> None:
    assert drawn('{% figure "Held" 3 %}') == "<div><dt>Held</dt><dd>3</dd></div>"
    html = drawn('{% figure title 3 title brass=0 ruby=1 unit="/s" %}', title=HOSTILE[1])
    assert HOSTILE[1] not in html
    assert '<dd class="ruby">3<small>/s</small></dd>' in html
    assert "<dd><b>now</b></dd></div>" in drawn('{% noted_figure "Held" 3 %}<b>now</b>{% endnoted_figure %}')


def test_what_is_written_between_two_tags_is_kept_under_a_name() -> None:
    assert drawn("{% written as kept %}<b>{{ one }}</b>{% endwritten %}{{ kept }}", one="<i>") == "<b>&lt;i&gt;</b>"


def test_a_field_leads_to_what_is_wrong_with_it() -> None:
    html = drawn('{% text_field t "from" t 64 required=1 autofocus="" placeholder="" fault=t %}', t=HOSTILE[1])
    assert HOSTILE[1] not in html
    assert '<input name="from" value="&quot;&gt;' in html
    assert ' aria-describedby="wrong-from" aria-invalid="true" maxlength="64" required></label>' in html
    assert '<p class="fault ruby" id="wrong-from">' in html
    assert 'aria-describedby="from-error"' in drawn('{% text_field "From" "from" error="x" %}')
    assert 'id="from-error"' in drawn("{% field_errors errors %}", errors={"from": "x"})


def test_a_field_has_no_attribute_that_it_is_not_given() -> None:
    assert drawn('{% text_field "T" "t" "" autofocus=0 %}') == (
        '<label class="field"><span>T</span><input name="t" value=""></label>'
    )
    assert drawn('{% choice_field "T" "t" is_quiet=1 %}<option>a</option>{% endchoice_field %}') == (
        '<label class="field"><span class="sr">T</span><select name="t"><option>a</option></select></label>'
    )
    area = drawn('{% area_field "T" "t" text 9 about="Help" %}', text="</textarea>")
    assert "&lt;/textarea&gt;</textarea>" in area
    assert '<p class="muted" id="about-t">Help</p>' in area


def test_words_of_a_state_and_of_an_empty_list_stay_text() -> None:
    html = drawn('{% state "look" words "brass" %}{% empty_state words words %}', words=HOSTILE[1])
    assert HOSTILE[1] not in html
    assert html.count("<svg") == 1


@pytest.mark.parametrize(
    ("previous", "following", "addresses"),
    [
        (None, None, []),
        (0, None, ["?search=a&amp;offset=0"]),
        (0, 80, ["?search=a&amp;offset=0", "?search=a&amp;offset=80"]),
    ],
)
def test_a_pager_keeps_the_rest_of_the_query(previous: int | None, following: int | None, addresses: list[str]) -> None:
    request: HttpRequest = RequestFactory().get("/topics/?search=a&offset=40")
    html = drawn("{% pager previous following %}", request=request, previous=previous, following=following)
    assert [part.partition('"')[0] for part in html.split('href="')[1:]] == addresses


def test_an_address_leaves_out_what_is_empty_and_escapes_the_rest() -> None:
    source = "{% address 'timer_list' topic=topic from=1 to=None key='' %}"
    assert drawn(source, topic='a&"b') == "/timers/list/?topic=a%26%22b&amp;from=1"
    assert QueryDict("topic=a%26%22b&from=1")["topic"] == 'a&"b'


def test_a_button_copies_the_whole_value_and_is_there_only_with_one() -> None:
    html = drawn("{% copies value %}", value=HOSTILE[1] + "x" * 300)
    assert HOSTILE[1] not in html
    assert "x" * 300 in html
    assert 'type="button"' in html
    assert 'class="copy"' in html
    assert drawn("{% copies one %}{% copies other %}", one="", other=None).strip() == ""
    assert 'data-copies="0"' in drawn("{% copies 0 %}")


def test_quoted_lines_are_copied_from_where_they_stand() -> None:
    html = drawn("{% quoted text %}", text=HOSTILE[4])
    assert HOSTILE[4] not in html
    assert html.count("svg") == 1, "a body is on the page once"
    assert 'data-copies=""' in html
