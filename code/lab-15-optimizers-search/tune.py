"""Lab 15: search for the settings of a training run, and stop the trials that fall behind.

Read `suggest`, `train_trial` and `next_trial` first: what a trial may choose, what it reports, and how a trial of a
killed process is found. What comes from rankzero.learn is not the lesson. B = sequences per batch, T = tokens each.

    python tune.py                                                  # under a minute on two CPU cores
    python tune.py --storage study.db --trials 40 --workers 2       # two processes, also on a study that exists
"""

import argparse
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
import torch.nn.functional as F
from optuna.trial import TrialState
from torch.optim import AdamW, Optimizer

from rankzero.errors import UserError
from rankzero.learn.data.batches import check_length, random_batch, to_device, validation_batches
from rankzero.learn.data.corpus import load_corpus
from rankzero.learn.machine.device import choose_device, device_name, seed_everything
from rankzero.learn.machine.fingerprint import fingerprint
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.options import StarterParser, positive_int
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import StopRequest, finish_step_on_interrupt
from rankzero.learn.runs.training_options import add_model_options, learning_rate, run_starter, start_again
from rankzero.learn.search import trial_report as report
from rankzero.learn.search.shared_study import existing, is_alive, one_at_a_time, open_study, this_process
from rankzero.learn.search.worker_processes import settings_words, start_others, wait_for

BATCHES = [8, 16, 32, 64]  # sequences
REPORTS = 8  # of a trial: at an eighth of its tokens, two eighths, ...
UNNAMED = {"weight_decay": 0.01, "warmup": 0.05, "beta2": 0.999}  # default settings without an option
SAME = ("tokens", "block_size", "hidden_dim", "layers", "heads", "corpus", "seed")  # or trials do not compare


def make_parser() -> StarterParser:
    parser = StarterParser(description="Lab 15: search for the settings of a training run, with trials ended early.")
    add = parser.add_argument
    add("--trials", type=positive_int, default=20, help="trials to finish or prune in all, those before included")
    add("--tokens", type=positive_int, default=32768, help="tokens that each trial trains on, unless it is pruned")
    add("--workers", type=positive_int, default=1, help="processes that run trials, each on one thread")
    add("--storage", type=Path, help="SQLite file of the study; goes on with it if it exists (default: in the run)")
    add("--join", action="store_true", help="only add trials to the study of --storage, without a report at the end")
    add_model_options(parser)
    parser.set_defaults(block_size=32, hidden_dim=64, layers=2, heads=2, batch_size=16, resume=None)
    return parser


# ------------------------------------------------------------------------------------------------------- one trial
def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """The settings of a trial, drawn by the study's sampler."""
    return {
        "lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True),
        "batch_size": trial.suggest_categorical("batch_size", BATCHES),
        "weight_decay": trial.suggest_float("weight_decay", 1e-3, 1.0, log=True),
        "warmup": trial.suggest_float("warmup", 0.0, 0.3),  # share of the steps
        "beta2": trial.suggest_categorical("beta2", [0.9, 0.95, 0.999]),
    }


def make_optimizer(model: GPT, setting: dict[str, Any]) -> Optimizer:
    betas, decay = (0.9, setting["beta2"]), setting["weight_decay"]
    return AdamW(model.parameters(), lr=setting["lr"], betas=betas, weight_decay=decay)


def train_trial(run: "Run", setting: dict[str, Any], seed: int, after: Callable[[int, float, float], None]) -> GPT:
    """Trains a new model on the run's number of tokens, whatever the batch size; returns the model.

    Calls `after` REPORTS times with the tokens so far, the mean training loss since the last call, the validation loss.
    """
    batch = {"batch_size": setting["batch_size"], "block_size": run.options.block_size}
    steps, losses = run.options.tokens // math.prod(batch.values()), list[torch.Tensor]()
    warmup = round(setting["warmup"] * steps)
    seed_everything(seed)
    model = GPT(run.config).to(run.device)
    optimizer = make_optimizer(model, setting)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, setting["lr"], warmup, steps)
        x, y = random_batch(run.corpus.train, step=step, seed=seed, **batch)  # [B, T]
        x, y = to_device(x, y, run.device)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())  # B*T tokens, in nats
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) % (steps // REPORTS) == 0:
            train_loss = torch.stack(losses).mean().item()
            after((step + 1) * x.numel(), train_loss, run.loss_of(model, run.select))
            losses.clear()
    return model


def run_trial(run: "Run", trial: optuna.Trial, stop: StopRequest) -> None:
    """Runs one trial of the study to its end. KeyboardInterrupt at its next report after a signal."""
    setting, training = suggest(trial), dict[str, float]()
    trial.set_user_attr("seed", run.options.seed)

    def after(tokens: int, train_loss: float, val_loss: float) -> None:
        training[str(tokens)] = train_loss
        trial.set_user_attr("training", training)
        if not math.isfinite(val_loss):
            raise optuna.TrialPruned  # diverged: it has no value that could be reported
        trial.report(val_loss, step=tokens)
        if tokens < run.options.tokens and trial.should_prune():
            raise optuna.TrialPruned
        if stop and tokens < run.options.tokens:
            raise KeyboardInterrupt

    try:
        train_trial(run, setting, run.options.seed, after)
        run.study.tell(trial, run.study.trials[trial.number].intermediate_values[run.options.tokens])
    except optuna.TrialPruned:
        run.study.tell(trial, state=TrialState.PRUNED)
    except BaseException:  # also Ctrl-C: another process, or the next run, takes the trial
        hand_back(run.study, run.study.trials[trial.number])
        raise


# --------------------------------------------------------------------------------------- one study, several processes
def hand_back(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
    """Puts the settings of a trial that nothing runs any more into the queue, once, and fails the trial."""
    others = study.get_trials(deepcopy=False)
    if all(other.user_attrs.get("again") != trial.number for other in others):
        study.enqueue_trial(trial.params, user_attrs={"again": trial.number})
    study.tell(trial.number, state=TrialState.FAIL)  # last, in case of a kill between


def next_trial(study: optuna.Study, storage: Path, total: int, seed: int) -> optuna.Trial | None:
    """Starts the next trial, or returns None when `total` trials are finished, pruned or running.

    A trial that is marked as running while its process is gone was killed: it is handed back first.
    """
    with one_at_a_time(storage):
        for begun in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if not is_alive(begun.user_attrs.get("process")):
                hand_back(study, begun)
        counted = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
        if len(study.get_trials(deepcopy=False, states=counted)) >= total:
            return None
        # Seeded once, a sampler would repeat its first draws in every process.
        random = np.random.default_rng((seed, len(study.get_trials(deepcopy=False))))
        study.sampler = optuna.samplers.TPESampler(seed=int(random.integers(2**31)))
        trial = study.ask()
        trial.set_user_attr("process", this_process())
        return trial


# ------------------------------------------------------------------------------------------------------------ the run
class Run:
    """Shared parts of the trials of a run: text, device, study."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, choose_device(options.device)
        self.corpus = load_corpus(options.corpus)
        half = len(self.corpus.val) // 2  # one half chooses among trials, the other half judges the chosen one
        self.select, self.judge = self.corpus.val[:half], self.corpus.val[half:]
        check_length(self.select, options.block_size, f"half the validation part of corpus {self.corpus.name}")
        shape = (self.corpus.vocab_size, options.block_size, options.layers, options.heads, options.hidden_dim)
        self.config = GPTConfig(*shape)
        least = REPORTS * BATCHES[-1] * options.block_size
        if options.tokens % least or options.batch_size not in BATCHES:
            tokens = f"--tokens {options.tokens} must be a multiple of {least}"
            raise UserError(f"{tokens}, and --batch-size {options.batch_size} one of {BATCHES}.")
        self.same = {name: getattr(options, name) for name in SAME}
        self.default = {"lr": options.lr, "batch_size": options.batch_size} | UNNAMED

    def open_study(self, storage: Path) -> None:
        """Makes the study or goes on with it. The settings to beat are the first trial of a new study."""
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=self.options.tokens // 4)
        self.study = open_study(storage, pruner, self.same | {"text": self.corpus.sha256}, first=self.default)

    @torch.no_grad()
    def loss_of(self, model: GPT, text: torch.Tensor) -> float:
        """Mean loss in nats per token on 256 windows of `text`."""
        (batch,) = validation_batches(text, count=1, batch_size=256, block_size=self.options.block_size)
        x, y = to_device(*batch, self.device)
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()


def search(run: Run, storage: Path, stop: StopRequest) -> None:
    while not stop and (trial := next_trial(run.study, storage, run.options.trials, run.options.seed)):
        try:
            run_trial(run, trial, stop)
        except KeyboardInterrupt:
            return
        print(report.trial_row(report.records([run.study.trials[trial.number]])[0]), flush=True)


def compare_on_fresh_seeds(run: Run, best: dict[str, Any]) -> None:
    """Trains the best and the default settings on seeds, and judges them on text, that no trial has seen."""
    seeds = [run.options.seed + 1000 + number for number in range(3)]
    print(f"\non seeds {seeds[0]} to {seeds[-1]}, judged by the other half of the validation text")
    for name, setting in (("default", run.default), ("best", best)):
        losses = [run.loss_of(train_trial(run, setting, seed, lambda *_: None), run.judge) for seed in seeds]
        words = ", ".join(f"{loss:.4f}" for loss in losses)
        print(f"  {name:<8} mean {np.mean(losses):.4f}   {words}", flush=True)


def train(options: argparse.Namespace, saved: object) -> int:
    """Searches, alone or with other processes, and reports on the study; returns the exit code."""
    run = Run(options)
    torch.set_num_threads(1)  # of each process
    if options.join:
        run.open_study(existing(options.storage))
        with finish_step_on_interrupt() as stop:
            search(run, options.storage, stop)
        return stop.exit_code if stop else 0
    folder = new_run_folder(options.out, "lab-15")
    storage = options.storage or folder / "study.db"
    run.open_study(storage)
    print(f"device  {run.device} ({device_name(run.device)}), processes: {options.workers}")
    print(f"model   {run.config.summary()}, {run.config.parameter_count():,} parameters")
    print(f"text    {run.corpus.summary()}")
    print(f"run     {options.trials} trials of {options.tokens:,} tokens, into {folder}/ and {storage}")
    print(f"\n{report.HEADING}", flush=True)
    with finish_step_on_interrupt() as stop:
        others = start_others(__file__, options, SAME, storage)
        search(run, storage, stop)
        wait_for(others, stop)
        search(run, storage, stop)  # for the trials of processes that were killed
    trials = report.records(run.study.trials)
    report.write_log(folder / "log.jsonl", trials, run.same | fingerprint(run.device))
    go_on = shlex.join([*start_again(__file__), *settings_words(options, SAME), f"--storage={storage}", "--trials"])
    if stop:
        print(f"\nStopped by {stop.name}: the trial under way is handed back. Go on with\n  {go_on} {options.trials}")
        return stop.exit_code
    print("\n" + report.summary(trials, options.tokens))
    compare_on_fresh_seeds(run, run.study.best_params)
    report.draw(run.study, trials, folder)
    print(f"\nfiles   {folder}/: curves.png, log.jsonl, and Optuna's plots\ngo on   {go_on} {2 * options.trials}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), train, arguments, lab="lab-15")


if __name__ == "__main__":
    sys.exit(main())
