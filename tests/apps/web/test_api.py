"""What the API answers: photos, ranking, the hierarchy, growth."""

from __future__ import annotations

import io

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from support.colours import PARENTS, SEEN, photo
from unseen.answers.answer import SUPPORT
from unseen.apps.web import guards, service
from unseen.apps.web.app import create_app
from unseen.bundle import Bundle


def classify(client, *photos, params=None, **fields):
    files = [("files", item if isinstance(item, tuple) else ("photo.png", item)) for item in photos]
    return client.post("/api/classify", files=files, data=fields, params=params)


def names(answer) -> list[str]:
    return [label["name"] for label in answer["labels"]]


# -- photos ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("colour", "name"), [("red", "tomato"), ("lime", "grass"), ("blue", "ocean")])
def test_a_photo_is_named(client, colour, name):
    answer = classify(client, photo(colour)).json()
    assert answer["classes"] == len(PARENTS)
    (one,) = answer["photos"]
    best = one["labels"][0]
    assert 0 < best["probability"] <= 1
    assert best | {"score": 0, "probability": 0} == {
        "id": name,
        "name": name,
        "say": name,
        "score": 0,
        "seen": True,
        "novel": False,
        "photos": 0,
        "trust": None,
        "probability": 0,
        "path": ["thing", PARENTS[name][0], name],
    }
    about = {"id": name, "name": name, "mark": "seen", "training": "trained on it", "support": "", "children": 0}
    assert one["about"][name] | about == one["about"][name] and one["hedge"] in ("Sure", "Likely", "A guess", "")
    scores = [label["score"] for label in one["labels"]]
    assert scores == sorted(scores, reverse=True) and len(scores) == 5
    assert one["guesses"][0]["id"] == name and not one["calibrated"]


def test_the_nodes_that_a_photo_lights_up_make_a_tree(client):
    lit = classify(client, photo("red"), candidates="unseen").json()["photos"][0]["nodes"]
    assert lit[0]["id"] == "thing" and lit[0]["parent"] is None and lit[0]["probability"] == pytest.approx(1)
    met = {None}
    for node in lit:
        assert node["parent"] in met and 0 <= node["probability"] <= 1
        met.add(node["id"])
    chances = {node["id"]: node["probability"] for node in lit}
    assert chances["fruit"] >= chances["cherry"] > 0 and "tomato" not in chances  # not a candidate


def test_many_photos_in_one_request_keep_their_order(client):
    colours = ["red", "blue", "lime", "red"]
    answer = classify(client, *[(f"{i}.png", photo(colour)) for i, colour in enumerate(colours)], k=1).json()
    assert [item["photo"] for item in answer["photos"]] == ["0.png", "1.png", "2.png", "3.png"]
    assert [names(item)[0] for item in answer["photos"]] == ["tomato", "ocean", "grass", "tomato"]
    assert len({item["token"] for item in answer["photos"]}) == 4


def test_fields_come_from_the_form_or_the_query(client):
    by_form = classify(client, photo(), k=2, candidates="unseen").json()
    by_query = classify(client, photo(), params={"k": 2, "candidates": "unseen"}).json()
    assert names(by_form["photos"][0]) == names(by_query["photos"][0]) and len(names(by_form["photos"][0])) == 2


def test_candidates(client):
    def named(candidates):
        return set(names(classify(client, photo(), candidates=candidates, k=100).json()["photos"][0]))

    assert named("seen") == set(SEEN)
    assert named("unseen") == set(PARENTS) - set(SEEN)
    assert named("subtree:fruit") == {"fruit", "tomato", "cherry"}
    assert named("hops:1") == {"fruit", "plant", "water"}
    assert named("hops:1+1K") == {"fruit", "plant", "water"} | set(SEEN)
    assert named("subtree:fruit+seen+hops:1") == {"fruit", "tomato", "cherry", "plant", "water"} | set(SEEN)
    assert "nothing was added to this bundle" in classify(client, photo(), candidates="own").json()["error"]


def test_what_is_not_a_photo_is_told_by_content(client):
    answer = classify(client, ("fine.txt", photo(format="JPEG")), ("notes.jpg", b"dear diary")).json()
    assert [item["photo"] for item in answer["photos"]] == ["fine.txt"]
    (unreadable,) = answer["unreadable"]
    assert unreadable["photo"] == "notes.jpg" and unreadable["why"].startswith("is not a picture in one of these")


def test_no_photo_at_all_is_an_error_that_lists_the_reasons(client):
    answer = classify(client, ("notes.jpg", b"dear diary"), ("empty.png", b""))
    assert answer.status_code == 422
    assert "notes.jpg: is not a picture" in answer.json()["error"]
    assert [item["photo"] for item in answer.json()["unreadable"]] == ["notes.jpg", "empty.png"]


def test_a_missing_field_says_which(client):
    answer = client.post("/api/classify", data={"k": 3})
    assert answer.status_code == 422 and "multipart field `files`" in answer.json()["error"]
    assert "k: Input should be less than or equal to 100" in classify(client, photo(), k=101).json()["error"]
    assert classify(client, photo(), confidence="nan").status_code == 422
    assert client.post("/api/rank", json={"tokens": ["x"], "sure": 0.9}).status_code == 422  # no such field


@pytest.mark.parametrize(
    "spec",
    ["/etc/passwd", "imagenet-1k.txt", "2-hops", "all", "hops:0", "hops:x", "subtree:", "own+", "own+2-hops", ""],
)
def test_candidates_never_name_files_or_downloads(client, spec):
    if spec:  # an empty form field counts as not given
        assert classify(client, photo(), candidates=spec).status_code == 422
    assert client.post("/api/rank", json={"tokens": ["x"], "candidates": spec}).status_code == 422


def test_limits_of_size_and_number(client, monkeypatch):
    answer = classify(client, *[photo()] * (guards.MAX_FILES + 1))
    assert answer.status_code == 400 and "Maximum number of files is 32" in answer.json()["error"]

    monkeypatch.setattr(service, "MAX_FILE_BYTES", 50)
    answer = classify(client, photo())
    assert answer.status_code == 422 and "larger than" in answer.json()["error"]

    monkeypatch.setattr(guards, "MAX_UPLOAD_BYTES", 1000)
    big = {"files": ("a.png", b"x" * 5000)}
    assert client.post("/api/classify", files=big).status_code == 413
    unannounced = {"content": iter([b"x" * 600] * 5), "headers": {"content-type": "multipart/form-data; boundary=b"}}
    assert client.post("/api/classify", **unannounced).status_code == 413
    assert client.post("/api/add", content=b" " * 2_000_000).status_code == 413


def test_names_of_photos_are_only_repeated(client):
    for name in ("../../etc/passwd", "<img src=x onerror=alert(1)>.png", "名前.png"):
        assert classify(client, (name, photo())).json()["photos"][0]["photo"] == name


# -- ranking again --------------------------------------------------------------------------------------------------


def test_rank_answers_as_classify_does_without_the_photo(client):
    sent = classify(client, photo("red"), photo("blue"), k=3, candidates="unseen").json()
    tokens = [item["token"] for item in sent["photos"]]
    again = client.post("/api/rank", json={"tokens": tokens, "k": 3, "candidates": "unseen"}).json()
    assert again["photos"] == sent["photos"]


def test_rank_tells_the_place_of_watched_classes(client):
    token = classify(client, photo("#c06030")).json()["photos"][0]["token"]
    ranked = client.post("/api/rank", json={"tokens": [token], "k": 10, "watch": ["cherry", "lake"]}).json()
    answer = ranked["photos"][0]
    assert [watched["id"] for watched in answer["watched"]] == ["cherry", "lake"]
    scores = {label["id"]: label["score"] for label in answer["labels"]}
    for watched in answer["watched"]:
        assert watched["of"] == len(PARENTS)
        better, level = (
            [s > scores[watched["id"]] + by for s in scores.values()] for by in (1e-6, -1e-6)
        )  # but rounding
        assert 1 + sum(better) <= watched["place"] <= sum(level)
    assert client.post("/api/rank", json={"tokens": [token], "watch": ["nothing"]}).status_code == 404


def test_forgotten_photos(client, service):
    service.photos.most = 2
    tokens = [classify(client, photo(), k=1).json()["photos"][0]["token"] for _ in range(3)]
    answer = client.post("/api/rank", json={"tokens": tokens}).json()
    assert answer["forgotten"] == tokens[:1] and [item["token"] for item in answer["photos"]] == tokens[1:]
    lost = client.post("/api/rank", json={"tokens": tokens[:1]})
    assert lost.status_code == 404 and "send it again" in lost.json()["error"]
    assert len(service.photos) == 2


def test_heat_maps_split_scores_over_the_photo(client):
    half = Image.new("RGB", (40, 40), "blue")
    half.paste("red", (0, 0, 20, 40))
    buffer = io.BytesIO()
    half.save(buffer, "PNG")
    labels = classify(client, buffer.getvalue(), k=10).json()["photos"][0]["labels"]
    sent = {"files": {"file": ("half.png", buffer.getvalue())}, "data": {"ids": [label["id"] for label in labels]}}
    answer = client.post("/api/heatmap", **sent).json()
    assert answer["photo"] == "half.png" and answer["box"] == [0, 0, 1, 1]
    for label, found in zip(labels, answer["maps"], strict=True):
        assert found["id"] == label["id"] and sum(map(sum, found["cells"])) == pytest.approx(label["score"], abs=1e-4)
    wrong = client.post("/api/heatmap", files={"file": ("a.png", buffer.getvalue())}, data={"ids": ["nothing"]})
    assert wrong.status_code == 404 and "nothing" in wrong.json()["error"]
    unreadable = client.post("/api/heatmap", files={"file": ("a.png", b"dear diary")}, data={"ids": ["tomato"]})
    assert unreadable.status_code == 422 and unreadable.json()["unreadable"][0]["photo"] == "a.png"


# -- the hierarchy ---------------------------------------------------------------------------------------------------


def test_search(client):
    found = client.get("/api/classes", params={"query": "toma"}).json()["classes"]
    assert [item["id"] for item in found] == ["tomato"] and found[0]["mark"] == "seen"
    assert [item["id"] for item in client.get("/api/classes").json()["classes"]] == ["thing"]
    assert client.get("/api/classes", params={"query": "zzz"}).json()["classes"] == []


def test_where_to_begin(client):
    topics = client.get("/api/topics").json()["topics"]  # there is but one top
    assert [(topic["id"], topic["descendants"]) for topic in topics] == [("fruit", 2), ("plant", 2), ("water", 2)]


def test_a_class_and_its_surroundings(client):
    fruit = client.get("/api/classes/fruit").json()
    assert [item["id"] for item in fruit["path"]] == ["thing", "fruit"]
    assert [item["id"] for item in fruit["parents"]] == ["thing"]
    assert [item["id"] for item in fruit["below"]] == ["cherry", "tomato"] and fruit["descendants"] == 2
    nearest = fruit["nearest"]
    assert {item["id"] for item in nearest[:2]} == {"tomato", "cherry"}
    assert [item["likeness"] for item in nearest] == sorted((item["likeness"] for item in nearest), reverse=True)
    assert client.get("/api/classes/nothing").status_code == 404
    assert client.get("/api/classes/..%2F..%2Fetc%2Fpasswd").status_code == 404


def test_why(client):
    why = client.post("/api/explain", json={"id": "cherry"}).json()
    assert why["neighbours"][0]["id"] == "tomato" and why["path"] == ["thing", "fruit", "cherry"]
    assert why["neighbours"][0]["path"] == ["cherry", "fruit", "tomato"]
    tree = {twig["id"]: twig["parent"] for twig in why["tree"]}
    assert tree["thing"] is None and tree["cherry"] == tree["tomato"] == "fruit"
    assert set(tree) == set(why["nodes"]) and why["nodes"]["tomato"]["mark"] == "seen"
    assert client.post("/api/explain", json={"id": "nothing"}).status_code == 404


# -- more classes ----------------------------------------------------------------------------------------------------


def test_an_added_class_answers_at_once_and_can_be_removed(client):
    token = classify(client, photo("red")).json()["photos"][0]["token"]
    answer = client.post("/api/add", json={"name": "Red Plum", "parents": ["fruit"], "definition": "a  sweet\nfruit"})
    assert answer.status_code == 201 and answer.json()["id"] == "red-plum"
    ranked = client.post("/api/rank", json={"tokens": [token], "candidates": "unseen", "k": 3}).json()
    assert "Red Plum" in names(ranked["photos"][0]) and ranked["classes"] == len(PARENTS) - len(SEEN) + 1
    own = client.post("/api/rank", json={"tokens": [token], "candidates": "own"}).json()
    assert names(own["photos"][0]) == ["Red Plum"] and own["classes"] == 1
    details = client.get("/api/classes/red-plum").json()
    assert details["added"] and details["definition"] == "a sweet fruit" and details["path"][1]["id"] == "fruit"
    assert [item["id"] for item in client.get("/api/bundle").json()["bundle"]["added"]] == ["red-plum"]

    assert client.delete("/api/classes/red-plum").json() == {"removed": "red-plum", "added": []}
    again = client.post("/api/rank", json={"tokens": [token], "candidates": "unseen", "k": 100}).json()
    assert "Red Plum" not in names(again["photos"][0])


def test_a_class_is_tried_out_without_being_added(client):
    token = classify(client, photo("red")).json()["photos"][0]["token"]
    words = {"name": "Red Plum", "parents": ["fruit"], "looks": "small, round and red"}
    tried = client.post("/api/try", json={**words, "tokens": [token], "candidates": "unseen"}).json()
    (place,) = tried["places"]
    assert place["token"] == token and place["of"] == len(PARENTS) - len(SEEN) + 1
    client.post("/api/add", json=words)
    watched = {"tokens": [token], "candidates": "unseen", "watch": ["red-plum"]}
    (added,) = client.post("/api/rank", json=watched).json()["photos"][0]["watched"]
    assert (added["place"], added["of"]) == (place["place"], place["of"])
    client.delete("/api/classes/red-plum")
    assert client.post("/api/try", json={**words, "tokens": ["forgotten"]}).status_code == 404


def test_a_place_is_proposed_for_a_new_class(client):
    proposed = client.post("/api/suggest", json={"name": "winter cherry"}).json()
    assert proposed["exists"] == [] and proposed["parents"][0]["id"] == "cherry"
    known = client.post("/api/suggest", json={"name": "Tomato"}).json()
    assert [item["id"] for item in known["exists"]] == ["tomato"] and known["parents"] == []
    assert client.post("/api/suggest", json={"name": ""}).status_code == 422


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"name": "plum", "parents": ["nothing"]}, 400, "nothing"),
        ({"name": "plum", "parents": []}, 422, "parents"),
        ({"name": "  ", "parents": ["fruit"]}, 422, "name"),
        ({"parents": ["fruit"]}, 422, "name"),
        ({"name": "plum", "parents": ["fruit"], "path": "/tmp"}, 422, "path"),
        ({"name": "p" * 201, "parents": ["fruit"]}, 422, "200"),
    ],
)
def test_what_cannot_be_added(client, body, status, word):
    answer = client.post("/api/add", json=body)
    assert answer.status_code == status and word in answer.json()["error"]


def test_only_added_classes_can_be_removed(client):
    assert client.delete("/api/classes/tomato").status_code == 409
    assert client.delete("/api/classes/nothing").status_code == 404


def test_save_stays_within_its_folder(client, tmp_path):
    client.post("/api/add", json={"name": "plum", "parents": ["fruit"]})
    answer = client.post("/api/save", json={"name": "../../My Zoo!"})
    assert answer.status_code == 201 and answer.json()["name"] == "my-zoo"
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.iterdir()} == {"saved"}
    saved = Bundle.load(tmp_path / "saved" / "my-zoo")
    assert saved.added == ["plum"] and "plum" in saved.hierarchy
    assert client.post("/api/save", json={"name": "my zoo"}).status_code == 409
    assert answer.json()["path"] == str(tmp_path / "saved" / "my-zoo") and "my-zoo" in answer.json()["command"]


def test_only_this_machine_learns_where_a_bundle_is_saved(service):
    visitor = TestClient(create_app(service), base_url="http://127.0.0.1:8000", client=("192.0.2.7", 50_000))
    assert visitor.post("/api/save", json={"name": "zoo"}).json() == {"name": "zoo"}
    assert not visitor.get("/api/start").json()["local"]


def test_read_only(colour_model, tmp_path):
    app = create_app(service.Service(colour_model, save_folder=tmp_path, read_only=True))
    client = TestClient(app, base_url="http://localhost")
    assert client.get("/api/bundle").json()["read_only"]
    for answer in (
        client.post("/api/add", json={"name": "plum", "parents": ["fruit"]}),
        client.post("/api/save", json={"name": "x"}),
        client.delete("/api/classes/tomato"),
    ):
        assert answer.status_code == 403 and "--read-only" in answer.json()["error"]
    assert list(tmp_path.iterdir()) == []


# -- the server ------------------------------------------------------------------------------------------------------


def test_health_and_the_bundle(client):
    classify(client, photo())
    health = client.get("/api/health").json()
    assert health["status"] == "ok" and health["bundle"] == "steep"
    assert health["photos"] == health["remembered"] == 1
    first = client.get("/api/bundle").json()["bundle"]
    assert (first["method"], first["classes"], first["seen"]) == ("structural", len(PARENTS), len(SEEN))


def test_all_errors_are_json_that_says_what_to_do(client):
    for answer, status in (
        (client.get("/nowhere"), 404),
        (client.get("/static/nowhere.js"), 404),
        (client.get("/static/..%2f..%2fservice.py"), 404),
        (client.put("/api/classify"), 405),
        (client.post("/api/rank", content=b"{", headers={"content-type": "application/json"}), 422),
        (client.get("/api/classes", params={"limit": 0}), 422),
    ):
        assert answer.status_code == status and isinstance(answer.json()["error"], str)


def test_a_mistake_of_ours_is_a_json_500_without_details(service, monkeypatch):
    monkeypatch.setattr(service, "look_at", lambda files: 1 / 0)
    client = TestClient(create_app(service), base_url="http://localhost", raise_server_exceptions=False)
    answer = classify(client, photo())
    assert answer.status_code == 500 and "division" not in answer.text and "error" in answer.json()


# -- teaching --------------------------------------------------------------------------------------------------------


def test_a_photo_teaches_a_known_class_and_is_forgotten(client):
    token = classify(client, photo("#c06030")).json()["photos"][0]["token"]

    def order():
        ranked = client.post("/api/rank", json={"tokens": [token], "k": 10}).json()
        return {label["id"]: label["score"] for label in ranked["photos"][0]["labels"]}

    before = order()
    taught = client.post("/api/teach", json={"token": token, "id": "lake"})
    assert taught.status_code == 200 and [(one["id"], one["photos"]) for one in taught.json()["taught"]] == [
        ("lake", 1)
    ]
    assert order()["lake"] > before["lake"]
    again = client.post("/api/teach", json={"token": token, "id": "lake"}).json()
    assert again["taught"][0]["photos"] == 1  # the same photo counts once
    assert client.delete("/api/teach/lake").json()["taught"] == [] and order() == pytest.approx(before)
    assert client.delete("/api/teach/lake").status_code == 404


def test_a_photo_teaches_a_new_class(client):
    token = classify(client, photo("#c06030")).json()["photos"][0]["token"]
    sent = {"token": token, "name": "brick", "parents": ["thing"]}
    assert client.post("/api/teach", json=sent).json()["id"] == "brick"
    ranked = client.post("/api/rank", json={"tokens": [token], "candidates": "unseen"}).json()
    assert names(ranked["photos"][0])[0] == "brick"
    assert client.get("/api/bundle").json()["bundle"]["taught"][0]["id"] == "brick"
    assert client.delete("/api/classes/brick").status_code == 200
    assert client.get("/api/bundle").json()["bundle"]["taught"] == []
    assert client.post("/api/teach", json={"token": token, "name": "brick"}).status_code == 422
    assert client.post("/api/teach", json={"token": token, "id": "nothing"}).status_code == 404
    assert client.post("/api/teach", json={"token": "x", "id": "lake"}).status_code == 404


# -- lists, the map, and what a page needs to begin -----------------------------------------------------------------


def test_only_the_classes_of_a_list_compete(client):
    answer = classify(client, photo("red"), among="cherry, ocean").json()
    assert answer["classes"] == 2 and set(names(answer["photos"][0])) == {"cherry", "ocean"}
    assert names(answer["photos"][0])[0] == "cherry"
    assert [item["name"] for item in answer["listed"]] == ["cherry", "ocean"]
    token = answer["photos"][0]["token"]
    again = client.post("/api/rank", json={"tokens": [token], "among": "lake\nocean; ocean"}).json()
    assert set(names(again["photos"][0])) == {"lake", "ocean"}
    assert client.post("/api/rank", json={"tokens": [token]}).json()["classes"] == len(PARENTS)  # only for that answer


def test_new_names_of_a_list_are_classes_of_that_answer(client):
    answer = classify(client, photo("red"), among="redcurrant (fruit), ocean").json()
    (new, _) = answer["listed"]
    assert new["new"] and [parent["name"] for parent in new["parents"]] == ["fruit"]
    assert names(answer["photos"][0])[0] == "redcurrant"
    why = client.post("/api/explain", json={"id": new["id"], "among": "redcurrant (fruit), ocean"})
    assert why.status_code == 200
    wrong = classify(client, photo("red"), among="zorgblatt")
    assert wrong.status_code == 400 and "zorgblatt (PARENT)" in wrong.json()["error"]


def test_a_list_has_its_limits(client):
    token = classify(client, photo()).json()["photos"][0]["token"]
    many = ",".join(f"name {number}" for number in range(guards.MAX_AMONG_NAMES + 1))
    answer = client.post("/api/rank", json={"tokens": [token], "among": many})
    assert answer.status_code == 422 and "too many" in answer.json()["error"]
    assert client.post("/api/rank", json={"tokens": [token], "among": "x" * 30_000}).status_code == 422
    long = client.post("/api/explain", json={"id": "lake", "among": "lake, " + "(" * 10_000})
    assert long.status_code == 422 and "200 characters" in long.json()["error"]
    assert client.post("/api/rank", json={"tokens": [token], "among": "a\u202eb"}).status_code == 422


def test_the_map_has_every_class_once_and_below_is_one_stretch(client):
    world = client.get("/api/map").json()
    places = client.get("/api/map/places", params={"start": 0, "count": 100}).json()["places"]
    ids = [id for id, _ in places]
    assert sorted(ids) == sorted(PARENTS) and len(world["marks"]) == len(PARENTS)
    for id, mark in zip(ids, world["marks"], strict=True):
        assert (mark == "s") == (id in SEEN)
    for id in PARENTS:
        start, size = client.get(f"/api/classes/{id}").json()["at"]
        below = {id, *(child for child, parents in PARENTS.items() if id in parents)}
        assert set(ids[start : start + size]) == (below if id != "thing" else set(PARENTS))
    lit = classify(client, photo("red")).json()["photos"][0]["nodes"]
    assert all(node["at"] == client.get(f"/api/classes/{node['id']}").json()["at"] for node in lit)


def test_an_added_class_gets_its_place_on_the_map(client):
    client.post("/api/add", json={"name": "redcurrant", "parents": ["fruit"]})
    start, size = client.get("/api/classes/fruit").json()["at"]
    ids = [id for id, _ in client.get("/api/map/places", params={"start": start, "count": size}).json()["places"]]
    assert set(ids) == {"fruit", "tomato", "cherry", "redcurrant"}


def test_a_watched_class_says_what_it_is_folded_into(client):
    token = classify(client, photo("red")).json()["photos"][0]["token"]
    answer = client.post("/api/rank", json={"tokens": [token], "watch": ["fruit"]}).json()["photos"][0]
    (watched,) = answer["watched"]
    assert 0 < watched["probability"] <= 1
    folded = [guess["id"] for guess in answer["guesses"] if guess["id"] in ("fruit", "tomato", "cherry")]
    assert watched["within"] in folded


def test_one_request_has_all_that_a_page_needs(client, service):
    start = client.get("/api/start").json()
    assert start["local"] and start["run"] == service.run == client.get("/api/bundle").json()["run"]
    assert {sample["file"] for sample in start["samples"]} >= {"temple.jpg", "raccoon.jpg"}
    assert set(start["words"]["marks"]) == {"seen", "unseen", "guesswork", "link"}
    assert set(start["words"]["support"]) == {word for word, _ in SUPPORT}


def test_marks_and_words_of_support_agree(client):
    for id in PARENTS:
        one = client.get(f"/api/classes/{id}").json()
        assert (one["mark"] == "guesswork") == (one["support"] == SUPPORT[-1][0])
        assert (one["mark"] == "seen") == (id in SEEN)
