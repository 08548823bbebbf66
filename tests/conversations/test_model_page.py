"""What a model tried, on the job's page, after a whole job."""

from __future__ import annotations

from gpu_runner.contracts import to_json
from tests.conversations.modifying import speaks
from tests.conversations.talk import Talk
from tests.recorded.libraries import REGLU, create
from tests.workers.stages.creating import OFF, RIGHT, WRONG, kernel


def test_what_was_tried_stands_on_the_jobs_page_with_its_questions(talk: Talk) -> None:
    speaks(kernel(WRONG), kernel(RIGHT))
    talk.answer("verify", to_json(OFF))
    number = talk.ask(create("reglu", REGLU, "--author llm --candidates 2 --auto"))
    talk.skip(number)
    talk.skip(talk.pull())
    job = talk.job().job_id
    page = talk.client.get(f"/jobs/{job}").text
    assert "Attempts in generate, attempt 1" in page
    assert "<code>incorrect_gradient</code>: gradients: the gradient of a is off" in page
    assert "<code>passed</code>, taken" in page
    assert page.count("question and answer") == 2
    record = talk.client.get(f"/jobs/{job}/artifacts/models/generate-1/candidate-1.json")
    assert record.json()["question"]["purpose"] == "generate"
    assert record.headers["content-security-policy"] == "default-src 'none'; sandbox"
