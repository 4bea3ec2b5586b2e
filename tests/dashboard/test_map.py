"""Maps: the projection by numbers, and what is drawn of the earth."""

from itertools import pairwise

import pytest

from resourceserver.dashboard.charts import Spot, places
from resourceserver.dashboard.charts.map import Map, around, distance_m
from resourceserver.dashboard.charts.outlines import FILE, Point, outlines


def drawn(*spots: Spot) -> Map:
    found = places("map", spots)
    assert found is not None
    return found


def is_land(at: Point) -> bool:
    """Return whether an odd number of rings is around a place (the rule by which land is filled)."""
    inside = False
    for ring in outlines().rings:
        for (x, y), (to_x, to_y) in pairwise(ring.points):
            if (y > at[1]) != (to_y > at[1]) and at[0] < x + (at[1] - y) / (to_y - y) * (to_x - x):
                inside = not inside
    return inside


def test_the_projection_by_hand() -> None:
    # 10 degrees of latitude and a margin of 15 % on both sides: 13 degrees, from -6.5 to 6.5. At the equator
    # a degree of longitude is as long, so the width is 1.6 times the height.
    box = around([(10.0, -5.0), (12.0, 5.0)])

    assert (box.west, box.south, box.width, box.height) == pytest.approx((0.6, -6.5, 20.8, 13))
    assert (box.across(11), box.down(0)) == pytest.approx((50, 50))
    assert (box.across(0.6), box.down(6.5)) == pytest.approx((0, 0))
    # Half as long at 60 degrees north.
    assert around([(0.0, 55.0), (0.0, 65.0)]).width == pytest.approx(13 * 1.6 * 2)


def test_circles_have_areas_in_proportion_to_their_time() -> None:
    quarter, whole = Spot(50, 8, 900, "a", number=2), Spot(52, 10, 3600, "b", number=1)

    found = drawn(quarter, whole, Spot(51, 9, None, "c"))

    assert [(each.spot.title, each.radius) for each in found.circles] == [
        ("b", 17),
        ("a", 10.5),
        ("c", 4),
    ]
    assert [key.style for key in found.legend] == ["stay", "ring", "land"]
    assert found.svg().count("<title>") == 3


def test_a_map_across_the_antimeridian_is_narrow() -> None:
    # Two islands of Fiji, 2 degrees apart: with the margins the map is 2.6 degrees wide.
    found = drawn(Spot(-17.8, 179, 1), Spot(-16.8, -179, 1))

    assert found.box.width == pytest.approx(2.6)
    assert [each.x for each in found.circles] == pytest.approx([100 * 0.3 / 2.6, 100 * 2.3 / 2.6])
    assert "180" in " ".join(line.label for line in found.across)
    # Land of both sides is drawn: an island on each of them, and one across.
    assert found.svg().count("z") >= 2


def test_a_map_across_the_prime_meridian_is_narrow() -> None:
    box = around([(-5.0, 50.0), (10.0, 50.0)])

    assert box.width == pytest.approx(15 * 1.3)
    assert (box.west, box.across(0)) == pytest.approx((-7.25, 100 * 7.25 / 19.5))


def test_one_place_has_lines_and_a_scale_but_no_outlines() -> None:
    found = drawn(Spot(52.37, 4.89, 7_200_000, "Office: 2 h", number=1))

    assert (found.circles[0].x, found.circles[0].y) == pytest.approx((50, 50))
    assert not found.has_outlines
    assert 'class="land"' not in found.svg()
    # 0.02 degrees are 2.2 km high and 3.6 km wide.
    assert found.box.width_m == pytest.approx(3558, abs=1)
    assert found.bar[0] == pytest.approx(100 * 1000 / 3558, abs=0.01)
    assert found.bar[1] == "1 km"
    assert [line.label for line in found.down] == [
        "52.365°\u00a0N",
        "52.370°\u00a0N",
        "52.375°\u00a0N",
    ]


def test_without_a_place_there_is_no_map() -> None:
    assert places("map", []) is None


@pytest.mark.parametrize("latitude", [90.0, -90.0, 89.999])
@pytest.mark.parametrize("longitude", [180.0, -180.0, 0.0])
def test_a_pole_is_on_the_map(latitude: float, longitude: float) -> None:
    found = drawn(Spot(latitude, longitude, 1), Spot(latitude * 0.9, longitude - 120, 1))

    assert all(0 <= each.x <= 100 and 0 <= each.y <= 100 for each in found.circles)
    assert 0 < found.box.width <= 360
    assert "nan" not in found.svg()


def test_places_all_over_the_earth_are_on_one_map() -> None:
    spots = [Spot(60 - n % 5 * 25, n * 7 % 360 - 180, n, f"<{n}>", number=n) for n in range(150)]

    found = drawn(*spots)

    assert len(found.circles) == 150
    assert all(0 <= each.x <= 100 and 0 <= each.y <= 100 for each in found.circles)
    # Numbers that would cover each other are left out.
    assert 0 < sum(each.is_numbered for each in found.circles) < 150
    assert "<1>" not in found.svg()
    assert len(found.svg()) < 150_000


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((13.4, 52.5), True),  # Berlin
        ((28.2, -29.5), True),  # Lesotho, which South Africa surrounds
        ((176.5, 67.0), True),  # Chukotka, whose ring goes on behind the antimeridian
        ((183.0, 67.0), True),
        ((0.0, -89.5), True),  # the South Pole
        ((-30.0, 40.0), False),  # the Atlantic
        ((51.0, 41.0), False),  # the Caspian Sea
        ((179.0, 80.0), False),
    ],
)
def test_land_is_where_it_is(at: Point, expected: bool) -> None:
    assert is_land(at) is expected


def test_outlines_are_small_and_have_no_line_along_or_across_the_flat_map() -> None:
    assert FILE.stat().st_size <= 100_000
    for line in outlines().lines:
        for (x, y), (to_x, to_y) in pairwise(line.points):
            assert abs(to_x - x) < 60, (x, y)
            assert not abs(x) == abs(to_x) == 180, (y, to_y)
    for ring in outlines().rings:
        assert ring.points[0] == ring.points[-1]
        assert all(abs(to[0] - at[0]) < 60 for at, to in pairwise(ring.points) if to[1] > -89)


def test_distances_by_hand() -> None:
    # A degree of latitude is 111.2 km, one of longitude at 60 degrees half of it.
    assert distance_m((0, 0), (1, 0)) == pytest.approx(111_195)
    assert distance_m((60, 179.5), (60, -179.5)) == pytest.approx(111_195 / 2, rel=1e-4)
    assert distance_m((90, 0), (-90, 0)) == pytest.approx(180 * 111_195)
