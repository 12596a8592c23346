"""Explain a classification as an HTML page: the page beside its nearest examples, as pictures."""

import base64
import io

from jinja2 import Environment
from PIL import Image

from llm_ocr.classification.classifier import PageClassifier, PageVote

PAGE_SIZE = (700, 900)
_TEMPLATE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ name }}: {{ vote.class_name }}</title>
<style>
  :root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
  body { margin: 24px; display: grid; grid-template-columns: minmax(260px, 2fr) 3fr; gap: 28px; }
  h1 { grid-column: 1 / -1; font-size: 20px; margin: 0; }
  img { max-width: 100%; height: auto; border: 1px solid #8888; background: #fff; }
  ol { list-style: none; padding: 0; display: grid; gap: 16px;
       grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; }
  dt { color: GrayText; } dd { margin: 0; }
  .same b { color: #1a7f37; } .different b { color: #c2410c; }
  @media (prefers-color-scheme: dark) {
    .same b { color: #4ade80; } .different b { color: #fb923c; }
  }
  small { color: GrayText; overflow-wrap: anywhere; }
</style>
<h1>{{ name }}: {{ vote.class_name if vote.is_accepted else "not accepted" }}</h1>
<img src="{{ picture }}" alt="The page">
<main>
  <p>{{ decision }}</p>
  <dl>
    <dt>Class with the most votes</dt><dd>{{ vote.class_name }}</dd>
    <dt>Share of the votes</dt>
    <dd>{{ "%.2f"|format(vote.probability) }} (at least {{ "%.2f"|format(classifier.vote_threshold)
      }})</dd>
    <dt>p-value</dt>
    <dd>{{ "%.3f"|format(vote.p_value) }} (at least {{ "%.2f"|format(classifier.significance)
      }})</dd>
    <dt>Plausible classes</dt><dd>{{ vote.plausible|join(", ") or "none" }}</dd>
  </dl>
  <h2>Nearest examples</h2>
  <ol>
  {% for example in nearest %}
    <li class="{{ "same" if example.class_name == vote.class_name else "different" }}">
      <img src="{{ example.picture }}" alt="Example of {{ example.class_name }}"><br>
      <b>{{ example.class_name }}</b> at {{ "%.2f"|format(example.distance) }}<br>
      <small>{{ example.name }}</small>
    </li>
  {% endfor %}
  </ol>
</main>
</html>
"""


def explain_vote(classifier: PageClassifier, vote: PageVote, image: Image.Image, name: str) -> str:
    """An HTML page that needs no other file. `name` is what people know the page by."""
    nearest = [
        {
            "class_name": classifier.classes[classifier.labels[number]],
            "name": classifier.names[number],
            "distance": distance,
            "picture": _data_url(classifier.thumbnails[number]),
        }
        for number, distance in vote.neighbors
    ]
    small = image.convert("RGB")
    small.thumbnail(PAGE_SIZE)
    data = io.BytesIO()
    small.save(data, "JPEG", quality=80)
    template = Environment(autoescape=True).from_string(_TEMPLATE)
    return template.render(
        classifier=classifier,
        vote=vote,
        name=name,
        picture=_data_url(data.getvalue()),
        decision=describe_decision(classifier, vote),
        nearest=nearest,
    )


def describe_decision(classifier: PageClassifier, vote: PageVote) -> str:
    """Why a page was accepted or not, in one sentence."""
    if vote.is_accepted:
        return (
            f"Accepted as {vote.class_name}: its nearest examples agree, and it resembles them as "
            "much as they resemble each other."
        )
    reasons = []
    if vote.probability < classifier.vote_threshold:
        reasons.append(
            f"its nearest examples disagree ({vote.probability:.2f} of the votes are for "
            f"{vote.class_name}, {classifier.vote_threshold:.2f} are needed)"
        )
    if vote.p_value < classifier.significance:
        reasons.append(
            f"it is unlike the known pages of {vote.class_name}: only {vote.p_value:.1%} of them "
            f"are as far from the others, {classifier.significance:.1%} are needed"
        )
    return f"Not accepted: {'; and '.join(reasons)}."


def _data_url(jpeg: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
