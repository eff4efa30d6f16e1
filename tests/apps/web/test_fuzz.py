"""The API under fire: requests made up from its own OpenAPI description must never end in a 500, nor in an answer that
the description does not promise."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.colours import PARENTS, model, photo
from unseen.apps.web.app import create_app
from unseen.apps.web.service import Service

OPERATIONS = [
    (path, method, mode)
    for path, item in create_app(None).openapi()["paths"].items()
    for method, operation in item.items()
    for mode in ("positive", "negative")
    if mode == "positive"
    or "parameters" in operation
    or "requestBody" in operation  # else there is nothing to get wrong
]
REAL = {
    "id": st.sampled_from(sorted(PARENTS)),
    "parents": st.lists(st.sampled_from(sorted(PARENTS)), min_size=1, max_size=3),
    "watch": st.lists(st.sampled_from(sorted(PARENTS)), max_size=3),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service(model(), save_folder=tmp_path_factory.mktemp("fuzz"))
    yield service
    service.close()


@pytest.fixture(scope="module")
def api(service):
    import schemathesis  # takes seconds, and only this test needs it

    return schemathesis.openapi.from_asgi("/openapi.json", create_app(service, allowed_hosts=["testserver"]))


@pytest.fixture(scope="module")
def tokens(service):
    return [token for token, _ in service.look_at([("a", photo("red")), ("b", photo("blue"))])[0]]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_every_operation_keeps_its_word(api, tokens, path, method, mode):
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    # A description cannot say which ids exist or which bytes are a photo, so that it allows what must be refused.
    excluded = CHECKS.get_by_names(["positive_data_acceptance"])
    operation = api[path][method]
    real = REAL | {"token": st.sampled_from(tokens), "tokens": st.lists(st.sampled_from(tokens), min_size=1)}
    real |= {"files": st.just(photo("red"))}
    met = set()

    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)), data=st.data())
    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def fire(case, data):
        # Half of the values that only a server knows are replaced by such, to get beyond "there is no such thing".
        if mode == "positive":
            for place in (case.path_parameters, case.query, case.body):
                for name in list(place) if isinstance(place, dict) else []:
                    if name in real and data.draw(st.booleans()):
                        place[name] = data.draw(real[name])
        response = case.call()
        met.add(response.status_code)
        case.validate_response(response, excluded_checks=excluded)

    fire()
    assert max(met) < 500
