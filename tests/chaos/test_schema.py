"""The published form of plans names what the parser knows, no more and no less."""

import dataclasses
import json

from chaos import plan_text
from chaos.faults import FAULTS
from chaos.plan import Plan
from chaos.schema import schema


def test_the_schema_has_the_settings_of_a_plan():
    assert set(schema()["properties"]) == {field.name for field in dataclasses.fields(Plan)}


def test_the_schema_has_the_settings_of_a_fault_and_the_whole_catalogue():
    fault = schema()["properties"]["faults"]["items"]["properties"]
    assert set(fault) == set(plan_text._FAULT_KEYS)
    assert {one["const"] for one in fault["fault"]["oneOf"]} == set(FAULTS)


def test_the_schema_is_json():
    assert json.loads(json.dumps(schema())) == schema()
