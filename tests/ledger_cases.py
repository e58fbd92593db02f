"""Random settings of the ledger, with Python's prediction for each and a script that predicts them in the page."""

import dataclasses
import math
import random
from typing import Any

from rankzero.errors import UserError
from rankzero.learn.models.gpt import GPTConfig
from rankzero.learn.models.llama import LlamaConfig
from rankzero.ledger.ledger import PHASES, Ledger, human
from rankzero.ledger.models import PRESETS, Config, parameter_count
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.predict import largest_micro_batch, predict
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES, bytes_per_parameter
from rankzero.publish.site.python_to_javascript import camel
from rankzero.publish.site.views.calculator import FAMILIES, size_names

Case = dict[str, Any]

# Runs in the page with two arguments: the text of changed formulas, or null for the page's formulas, and cases as JSON.
# Cases and results travel as text, because Playwright is slow with large lists.
PREDICT_IN_PAGE = """([changed, cases]) => {
  const made = changed === null ? Ledger : new Function(`${changed}; return Ledger;`)();
  const ledger = made(document.getElementById("ledger-facts").textContent);
  const big = (value) => Number.isInteger(value) ? BigInt(value) : value;
  const bigs = (object) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, big(value)]));
  return JSON.stringify(JSON.parse(cases).map(({ config, layout, recipe, optimizer, batchSize, seqLen, budget }) => {
    const how = [bigs(config), ledger.facts.recipe[recipe], ledger.facts.optimizer[optimizer]];
    const step = { seqLen: big(seqLen), layout: bigs(layout) };
    try {
      const rows = ledger.predict(...how, { ...step, batchSize: big(batchSize) });
      const { phase, bytes } = ledger.peak(rows);
      return {
        rows: rows.map((row) => [row.kind, row.name, `${row.bytes}`, row.formula, row.phases]),
        moments: ledger.facts.phases.map((phase) => Object.values(ledger.at(rows, phase)).map(String)),
        peak: [phase, `${bytes}`, ledger.human(bytes)],
        parameters: `${ledger.parameterCount(how[0])}`,
        each: ledger.bytesPerParameter(how[1], how[2]),
        largest: budget === null ? null : `${ledger.largestMicroBatch(...how, { ...step, budget: big(budget) })}`,
      };
    } catch (error) {
      if (!(error instanceof ledger.UserError)) throw error;
      return { refused: error.message };
    }
  }));
}"""


def random_cases(count: int) -> list[Case]:
    """Returns the same cases on each call. Most are possible settings; a few are impossible, for every known reason."""
    draw = random.Random(0)
    return [_random_case(draw) for _ in range(count)]


def _random_case(draw: random.Random) -> Case:
    sizes = _preset(draw) if draw.random() < 0.3 else _random_sizes(draw)
    if draw.random() < 0.04:
        sizes[draw.choice([name for name in sizes if name != "family"])] = draw.choice([0, -1])
    layout = _layout(draw, sizes)
    seq_len = max(1, _about(draw, max(1, sizes["block_size"])))
    ranks = max(1, layout["tensor"])
    if draw.random() < 0.9:  # a length that tensor ranks can split
        seq_len = max(1, seq_len // ranks) * ranks
    return {
        "config": sizes,
        "layout": layout,
        "recipe": draw.choice(list(RECIPES)),
        "optimizer": draw.choice(list(OPTIMIZERS)),
        "batch_size": 0 if draw.random() < 0.02 else _about(draw, 10**12 if draw.random() < 0.05 else 512),
        "seq_len": draw.choice([0, sizes["block_size"] + 1]) if draw.random() < 0.03 else seq_len,
        "budget": 10**9 * _about(draw, 10**5) if draw.random() < 0.15 else None,
    }


def _about(draw: random.Random, most: int) -> int:
    """Returns a number from 1 to `most`; each order of magnitude is equally likely."""
    return min(most, int(math.exp(draw.uniform(0, math.log(most + 1)))))


def _preset(draw: random.Random) -> dict[str, Any]:
    config = draw.choice(list(PRESETS.values()))
    family = next(name for name, kind in FAMILIES.items() if isinstance(config, kind))
    return {"family": family} | {name: getattr(config, name) for name in size_names(type(config))}


def _random_sizes(draw: random.Random) -> dict[str, Any]:
    kv, group, head_dim = _about(draw, 16), _about(draw, 8), 2 * _about(draw, 128)
    heads, family = kv * group, draw.choice(list(FAMILIES))
    sizes = {
        "family": family,
        "vocab_size": _about(draw, 300_000),
        "block_size": _about(draw, 131_072),
        "n_layer": _about(draw, 200),
        "n_head": heads,
        "hidden_dim": heads * head_dim + (draw.random() < 0.03),
    }
    if family == "llama":
        sizes |= {
            "n_kv_head": kv if draw.random() < 0.95 else kv + 1,
            "ffn_dim": _about(draw, 8192) * (kv if draw.random() < 0.95 else 1),
        }
    return sizes


def _layout(draw: random.Random, sizes: dict[str, Any]) -> dict[str, Any]:
    heads = max(1, sizes.get("n_kv_head", sizes["n_head"]))
    divisors = [ranks for ranks in range(1, heads + 1) if heads % ranks == 0]
    tensor = draw.choice(divisors) if draw.random() < 0.5 else 1
    data = draw.choice([1, 1, 2, 3, 4, 8, 64, 1000, 1024])
    if draw.random() < 0.05:
        data, tensor = draw.choice([(0, 1), (10**12, 1), (2, 0), (2, 3), (1, 7)])
    groups = [ranks for ranks in (1, 2, 4, data) if ranks and data % ranks == 0] or [1]
    shard = None if draw.random() < 0.7 else draw.choice(groups) if draw.random() < 0.9 else 5
    return {
        "data": data,
        "zero": 4 if draw.random() < 0.01 else draw.choice([0, 1, 2, 3, 3]),
        "tensor": tensor,
        "sequence_parallel": draw.random() < (0.5 if tensor > 1 else 0.03),
        "checkpointing": draw.choice(["none", "block"]) if draw.random() < 0.98 else "every 'other'",
        "shard": shard,
        "reshard": draw.random() < 0.8,
        "micro_batches": draw.choice([1, 1, 2, 16]) if draw.random() < 0.98 else draw.choice([0, 100_001]),
    }


def for_the_page(case: Case) -> Case:
    """Returns the case as an argument of `PREDICT_IN_PAGE`."""
    inner = {name: {camel(key): value for key, value in case[name].items()} for name in ("config", "layout")}
    return {camel(name): value for name, value in case.items()} | inner


def predict_in_python(case: Case) -> Case:
    """Returns the library's prediction in the form of the results of `PREDICT_IN_PAGE`."""
    try:
        config = config_of(case["config"])
        how: Any = (config, RECIPES[case["recipe"]], OPTIMIZERS[case["optimizer"]])
        step: Any = {"seq_len": case["seq_len"], "layout": Layout(**case["layout"])}
        ledger = predict(*how, **step, batch_size=case["batch_size"])
        budget = case["budget"]
        phase, size = ledger.peak()
        return {
            "rows": rows_of(ledger),
            "moments": [[str(size) for size in ledger.at(phase).values()] for phase in PHASES],
            "peak": [phase, str(size), human(size)],
            "parameters": str(parameter_count(config)),
            "each": bytes_per_parameter(how[1], how[2]),
            "largest": None if budget is None else str(largest_micro_batch(*how, **step, budget=budget)),
        }
    except UserError as error:
        return {"refused": str(error)}


def config_of(sizes: dict[str, Any]) -> Config:
    """Returns the config with these sizes. UserError for impossible sizes."""
    fields = {name: size for name, size in sizes.items() if name != "family"}
    return GPTConfig(**fields) if sizes["family"] == "gpt" else LlamaConfig(**fields)


def rows_of(ledger: Ledger) -> list[list[Any]]:
    """Returns the rows as plain lists: kind, name, bytes, formula, phases."""
    return [[row.kind.value, row.name, str(row.bytes), row.formula, list(row.phases or ())] for row in ledger.rows]


def sizes_of(config: Config) -> dict[str, Any]:
    """Returns the fields of a config that the page's form has."""
    return {name: value for name, value in dataclasses.asdict(config).items() if name in size_names(type(config))}
