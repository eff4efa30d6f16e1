"""`unseen teach`: what a few photos of a class say, at once and without training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.cli.options import DeviceOption, FeaturesOption, TrustCodeOption

if TYPE_CHECKING:
    from unseen.recognition.studies import Study


@command(
    "teach",
    examples="""
    unseen teach my-bundle --images photos --out taught
    unseen teach sounds --features clips.npz --out taught
    unseen teach taught --forget labradoodle --out taught
    """,
)
def teach(
    bundle: Annotated[Path, typer.Argument(help="The bundle.")],
    out: Annotated[Path, typer.Option(help="Where the changed bundle goes; may be the same folder.")],
    images: Annotated[Path | None, typer.Option(help="Photos as DIR/<class id or name>/*.")] = None,
    features: FeaturesOption = None,
    forget: Annotated[
        list[str] | None, typer.Option(help="Make a class what it was before it was taught; may be repeated.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another bundle in OUT.")] = False,
    trust_code: TrustCodeOption = False,
    device: DeviceOption = "auto",
    json_: JsonFlag = False,
) -> None:
    """Teach classes of a bundle, unseen or seen, with a few photos of each; they add to what was taught before."""
    if sum([images is not None, features is not None, bool(forget)]) != 1:
        raise typer.BadParameter("give photos with --images DIR, features with --features FILE, or --forget a class")

    from unseen.bundle import teaching
    from unseen.classifier import load
    from unseen.recognition.studies import Study, study_features, study_folder

    model = load(bundle, device=device, trust_code=trust_code)
    model.bundle.check_output(out, overwrite)  # before photos are looked at
    if forget:
        ids = [model.bundle.taxonomy.resolve(name) for name in forget]
        changed, study = teaching.forget(model.bundle, ids, out, overwrite), Study()
        classes, photos = len(set(ids)), 0
    else:
        assert images is not None or features is not None  # as checked above
        study = study_folder(model, images) if images is not None else study_features(model, cast("Path", features))
        changed = teaching.teach(model.bundle, study.photos, out, overwrite)
        classes, photos = len(study.photos), count_photos(changed) - count_photos(model.bundle)
        tell_about(study, photos)
    result = {
        "bundle": str(out),
        "classes": classes,
        "photos": photos,
        "unreadable": len(study.unreadable),
        "skipped_classes": len(study.skipped),
    }
    told = f"{classes:,} {'class' if classes == 1 else 'classes'}"
    done = f"forgot what {told} had been taught" if forget else f"{told} taught with {photos:,} photos"
    emit(result, json_, lambda: stdout.print(f"{escaped(out)}: {done}", soft_wrap=True))


def count_photos(bundle) -> int:
    return sum(lesson.photos for lesson in bundle.taught.values())


def tell_about(study: Study, new: int) -> None:
    """What a user may not have meant."""
    for item in study.unreadable:
        tell(f"unreadable {item.photo}: {item.why}")
    if study.skipped:
        some = ", ".join(study.skipped[:5]) + (", ..." if len(study.skipped) > 5 else "")
        tell(f"{len(study.skipped):,} folders are not named after a class of the bundle: {some}")
    known = sum(len(photos.checksums) for photos in study.photos.values()) - new
    if known:
        tell(f"{known:,} photos were taught before and do not count again")
