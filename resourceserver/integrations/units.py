"""The units in which sources measure, each with the factor from it to the unit of the API.

Units are written as Apple Health does. A temperature in degrees Fahrenheit is reduced by 32 before its
factor applies, which ``convert`` does.
"""

from collections.abc import Mapping
from typing import Final

from resourceserver.integrations.values import Flaw

Units = Mapping[str, float]
"""The factor of each unit of one quantity."""

LENGTH: Final = {
    "m": 1.0,
    "km": 1000.0,
    "cm": 0.01,
    "mm": 0.001,
    "mi": 1609.344,
    "ft": 0.3048,
    "in": 0.0254,
    "yd": 0.9144,
}
ENERGY: Final = {"kJ": 1.0, "J": 0.001, "kcal": 4.184, "Cal": 4.184, "cal": 0.004184}
MASS: Final = {"kg": 1.0, "g": 0.001, "lb": 0.45359237, "oz": 0.028349523125, "st": 6.35029318}
TIME: Final = {"ms": 1.0, "s": 1000.0, "min": 60_000.0, "hr": 3_600_000.0}
VOLUME: Final = {
    "mL": 1.0,
    "cL": 10.0,
    "dL": 100.0,
    "L": 1000.0,
    "fl_oz_us": 29.5735295625,
    "fl_oz_imp": 28.4130625,
    "cup_us": 236.5882365,
    "cup_imp": 284.130625,
}
SPEED: Final = {"m/s": 1.0, "km/hr": 1 / 3.6, "km/h": 1 / 3.6, "mi/hr": 0.44704, "ft/s": 0.3048}
RATE: Final = {"count/min": 1.0, "count/s": 60.0}
COUNT: Final = {"count": 1.0}
PRESSURE: Final = {"mmHg": 1.0, "kPa": 7.500615758456564}
GLUCOSE: Final = {
    "mg/dL": 10 / 180.1558800000541,
    "mmol<180.1558800000541>/L": 1.0,
    "mmol/L": 1.0,
}
TEMPERATURE: Final = {"degC": 1.0, "degF": 5 / 9}
SOUND: Final = {"dBASPL": 1.0}
OXYGEN_UPTAKE: Final = {"mL/min·kg": 1.0, "mL/kg·min": 1.0}


def convert(value: float, unit: str, units: Units) -> float:
    """Return a value in the unit of the API. Raises Flaw if ``units`` has no such unit."""
    factor = units.get(unit)
    if factor is None:
        raise Flaw("unknown_unit")
    if factor == 1:
        return value
    if unit == "degF":
        value -= 32
    # Without it 0.57 would be 56.99999999999999 percent.
    return round(value * factor, 9)
