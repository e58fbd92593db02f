"""Claims of handbook/model-families.md."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.kept_bytes import kept_tensors
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.data.images import import_torchvision
from rankzero.learn.models.gpt import GPT, Block, GPTConfig
from rankzero.learn.models.llama import Llama, LlamaConfig
from rankzero.learn.models.two_towers import STAGES, TextTower, TwoTowers, TwoTowersConfig, contrastive_loss
from rankzero.learn.profiling.memory import PhaseMemory, tensor_bytes
from rankzero.ledger.measure import SavedTensors, default_dtype
from rankzero.ledger.models import PRESETS
from rankzero.ledger.recipes import MIXED

CLIP = "[CLIP](https://arxiv.org/abs/2103.00020)"
LLAVA = "[LLaVA-1.5](https://arxiv.org/abs/2310.03744)"
Loss = Callable[[], Tensor]


def torchvision_models() -> Any:
    """torchvision's models, also beside a torch without CUDA."""
    return import_torchvision()[0].models


def picture_transformer(*sizes: int, classes: int = 1000) -> Any:
    """torchvision's vision transformer, its weights not drawn again: fake tensors have no values to look at."""
    with mock.patch.object(nn.init, "trunc_normal_"):
        return torchvision_models().VisionTransformer(*sizes, num_classes=classes)


def resnet(side: int) -> tuple[nn.Module, Loss]:
    """ResNet-50 and its loss for one picture of side x side pixels."""
    model = torchvision_models().resnet50()
    return model, lambda: F.cross_entropy(model(torch.randn(1, 3, side, side)), torch.zeros(1, dtype=torch.long))


def gpt2(tokens: int) -> tuple[nn.Module, Loss]:
    """GPT-2 124M and its loss for one sequence."""
    config = PRESETS["gpt2"]
    assert isinstance(config, GPTConfig)
    model = GPT(config)
    ids = torch.zeros(1, tokens, dtype=torch.long)
    return model, lambda: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


class ClipOfPublishedSize(nn.Module):
    """Towers of CLIP's ViT-B/32: pictures of 224 x 224 pixels, captions of 77 tokens, embeddings of 512 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.images = picture_transformer(224, 32, 12, 12, 768, 3072, classes=512)
        self.captions = TextTower(GPTConfig(49_408, block_size=77, n_layer=12, n_head=8, hidden_dim=512))
        self.projection = nn.Linear(512, 512, bias=False)


def clip(pairs: int = 1) -> tuple[nn.Module, Loss]:
    """CLIP ViT-B/32 and its loss for some pairs."""
    model = ClipOfPublishedSize()
    pictures, captions = torch.randn(pairs, 3, 224, 224), torch.zeros(pairs, 77, dtype=torch.long)

    def loss() -> Tensor:
        images = F.normalize(model.images(pictures), dim=-1)
        texts = F.normalize(model.projection(model.captions(captions)), dim=-1)
        return contrastive_loss(images @ texts.T / 0.07)

    return model, loss


def forward_counts(make: Callable[[], tuple[nn.Module, Loss]]) -> tuple[int, int, int]:
    """Parameters, bytes that a forward pass and loss keep for backward, and their FLOPs, with fake tensors.

    Attention is counted by the formula and measured with the fused kernel.
    """
    with FakeTensorMode():
        model, loss = make()
        saved = SavedTensors(model)
        with saved.active():
            loss()
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            loss()
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return parameters, sum(saved.by_module.values()), counter.get_total_flops()


FAMILIES: dict[str, Callable[[], tuple[nn.Module, Loss]]] = {
    "ResNet-50": lambda: resnet(224),
    "GPT-2": lambda: gpt2(1024),
    "CLIP": clip,
}


@claim(
    "families-parameters",
    "ResNet-50 has {expected[ResNet-50]:.1f} million parameters, GPT-2 {expected[GPT-2]:.1f} and our CLIP "
    "ViT-B/32 {expected[CLIP]:.1f}.",
    expected={"ResNet-50": 25.557, "GPT-2": 124.338, "CLIP": 151.209},
    unit="million",
    tolerance=0.001,
)
def families_parameters() -> Mapping[str, float]:
    """Builds the three models with fake tensors and counts."""
    return {name: forward_counts(make)[0] / 1e6 for name, make in FAMILIES.items()}


@claim(
    "families-activations",
    "One picture of 224 pixels keeps {expected[ResNet-50]:.1f} MB in ResNet-50, one sequence of 1,024 tokens "
    "{expected[GPT-2]:.1f} MB in GPT-2, one pair {expected[CLIP]:.1f} MB in CLIP ViT-B/32, all in fp32.",
    expected={"ResNet-50": 86.34, "GPT-2": 816.94, "CLIP": 60.93},
    unit="MB per example",
    tolerance=0.01,
)
def families_activations() -> Mapping[str, float]:
    """Adds up what autograd saves in a forward pass and loss of one example, with fake tensors; weights left out."""
    return {name: forward_counts(make)[1] / 1e6 for name, make in FAMILIES.items()}


@claim(
    "families-flops",
    "The forward pass takes {expected[ResNet-50]:.1f} GFLOPs for a picture in ResNet-50, {expected[GPT-2]:.1f} for "
    "1,024 tokens in GPT-2, {expected[CLIP]:.1f} for a pair in CLIP ViT-B/32.",
    expected={"ResNet-50": 8.178, "GPT-2": 291.648, "CLIP": 14.777},
    unit="GFLOPs per example",
    tolerance=0.001,
)
def families_flops() -> Mapping[str, float]:
    """Counts the FLOPs of one example's forward pass; a multiplication with its addition is two."""
    return {name: forward_counts(make)[2] / 1e9 for name, make in FAMILIES.items()}


@claim(
    "families-twice-the-input",
    "Twice the side of a picture keeps {expected[ResNet-50, side]:.2f} times the bytes in ResNet-50; twice the tokens "
    "keep {expected[GPT-2, tokens]:.2f} times in GPT-2 with fused attention.",
    expected={"ResNet-50, side": 3.985, "GPT-2, tokens": 2.0},
    unit="times the bytes",
    tolerance=0.005,
)
def twice_the_input() -> Mapping[str, float]:
    """Measures what one example keeps at both sizes, with fake tensors."""
    pictures = [forward_counts(lambda side=side: resnet(side))[1] for side in (224, 448)]  # type: ignore[misc]
    sequences = [forward_counts(lambda count=count: gpt2(count))[1] for count in (512, 1024)]  # type: ignore[misc]
    return {"ResNet-50, side": pictures[1] / pictures[0], "GPT-2, tokens": sequences[1] / sequences[0]}


@claim(
    "families-states-in-examples",
    "Weights, gradients and AdamW state in fp32 are as many bytes as the activations of {expected[ResNet-50]:.1f} "
    "pictures in ResNet-50, {expected[GPT-2]:.1f} sequences of 1,024 tokens in GPT-2, {expected[CLIP]:.1f} pairs in "
    "CLIP ViT-B/32.",
    expected={"ResNet-50": 4.74, "GPT-2": 2.44, "CLIP": 39.71},
    unit="examples",
    tolerance=0.01,
)
def states_in_examples() -> Mapping[str, float]:
    """Divides 16 bytes per parameter by the bytes that one example keeps."""
    counts = {name: forward_counts(make) for name, make in FAMILIES.items()}
    return {name: 16 * parameters / kept for name, (parameters, kept, _) in counts.items()}


@claim(
    "families-attention-share",
    "Scores and their use are {expected[1,024]:.1f} % of the forward FLOPs of a Llama-2-7B block at 1,024 tokens, "
    "{expected[4,096]:.1f} % at 4,096, {expected[24,576]:.1f} % at 24,576.",
    expected={"1,024": 4.0, "4,096": 14.2, "24,576": 49.9},
    unit="% of the block's FLOPs",
    tolerance=0.05,
)
def attention_share() -> Mapping[str, float]:
    """Counts the block's FLOPs with fake tensors, causality not discounted, and subtracts its seven products."""
    shares = {}
    for tokens in (1024, 4096, 24_576):
        config = LlamaConfig(vocab_size=8, n_layer=1, block_size=tokens)
        with FakeTensorMode():
            model = Llama(config)
            with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
                model(torch.zeros(1, tokens, dtype=torch.long))
        head = 2 * tokens * 8 * config.hidden_dim
        products = 2 * tokens * sum(p.numel() for p in model.blocks.parameters() if p.dim() == 2)
        block = counter.get_total_flops() - head
        shares[f"{tokens:,}"] = 100 * (block - products) / block
    return shares


@claim(
    "families-frozen-flops",
    "Forward and backward of a GPT block take {expected[trained]:.0f} times its forward FLOPs; "
    "{expected[frozen, behind a trained part]:.2f} times if it is frozen behind a trained part, and "
    "{expected[frozen, in front]:.0f} time if nothing in front of it trains.",
    expected={"trained": 3, "frozen, behind a trained part": 2.077, "frozen, in front": 1},
    unit="times the forward FLOPs",
    tolerance=0.005,
)
def frozen_flops() -> Mapping[str, float]:
    """Counts a step of a block of Lab 02's width on 64 tokens, attention by the formula so that it is counted.

    Attention has no weights, so both of its backward products run also behind a trained part.
    """
    counts = {}
    for name, (weights_train, input_trains) in FREEZING.items():
        block = Block(GPTConfig(vocab_size=1)).requires_grad_(weights_train)
        x = torch.randn(2, 64, 128, requires_grad=input_trains)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as forward:
            y = block(x)
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as backward:
            if y.requires_grad:
                y.sum().backward()
        counts[name] = 1 + backward.get_total_flops() / forward.get_total_flops()
    return counts


# Whether the block's weights train, and whether its input has a gradient.
FREEZING = {
    "trained": (True, True),
    "frozen, behind a trained part": (False, True),
    "frozen, in front": (False, False),
}


@claim(
    "families-frozen-kept",
    "A GPT block keeps {expected[trained]} tensors of the size of its input, {expected[frozen, behind a trained "
    "part]} if it is frozen behind a trained part, and {expected[frozen, in front]} if nothing in front of it trains.",
    expected={"trained": 16, "frozen, behind a trained part": 10, "frozen, in front": 0},
    unit="B·T·C",
    tolerance=0.15,  # statistics of norms and attention
)
def frozen_kept() -> Mapping[str, float]:
    """Counts what autograd keeps of a block of Lab 02's width on 12 sequences of 64 tokens."""
    kept = {}
    for name, (weights_train, input_trains) in FREEZING.items():
        block = Block(GPTConfig(vocab_size=1)).requires_grad_(weights_train)
        x = torch.randn(12, 64, 128, requires_grad=input_trains)
        kept[name] = tensor_bytes(kept_tensors(block, x, left_out=block)) / x.nbytes
    return kept


class Llava(nn.Module):
    """LLaVA-1.5 7B by its sizes: CLIP's ViT-L/14 at 336 pixels, a projector of two layers, Llama-2-7B."""

    def __init__(self) -> None:
        super().__init__()
        self.picture_tower = picture_transformer(336, 14, 24, 16, 1024, 4096)
        self.picture_tower.heads = nn.Identity()
        self.projector = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096))
        self.language_model = Llama(LlamaConfig(vocab_size=32_000))

    def picture_tokens(self, picture: Tensor) -> Tensor:
        """[B, 3, 336, 336] -> [B, 576, 4096], one token per patch of 14 x 14 pixels."""
        tower = self.picture_tower
        patches = tower._process_input(picture)
        first = tower.class_token.expand(len(picture), -1, -1)
        return self.projector(tower.encoder(torch.cat([first, patches], dim=1))[:, 1:])

    def forward(self, picture: Tensor, tokens: Tensor) -> Tensor:
        """The mean loss of the next token, over the text after the picture: [B, 3, 336, 336], [B, T] -> [].

        Llama embeds nothing here: it is given the vectors of picture and text.
        """
        embedding = self.language_model.token_embedding
        stream = torch.cat([self.picture_tokens(picture), embedding(tokens)], dim=1)
        self.language_model.add_module("token_embedding", nn.Identity())
        logits = self.language_model(stream)[:, -tokens.shape[1] - 1 : -1]
        self.language_model.token_embedding = embedding
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


LLAVA_STAGES = {
    "projector": ("projector",),
    "projector and LLM": ("projector", "language_model"),
    "everything": ("projector", "language_model", "picture_tower"),
}


def llava_by_stage() -> dict[str, dict[str, float]]:
    """GB of a step of LLaVA-1.5 7B by role and stage, for one picture and 100 tokens of text in the mixed recipe."""
    stages = {}
    with FakeTensorMode(), default_dtype(MIXED):
        for stage, parts in LLAVA_STAGES.items():
            model = Llava()
            for name, part in model.named_children():
                part.requires_grad_(name in parts)
            saved = SavedTensors(model)
            with saved.active():
                model(torch.randn(1, 3, 336, 336), torch.zeros(1, 100, dtype=torch.long))
            all_of_them = sum(p.numel() for p in model.parameters())
            trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
            stages[stage] = {
                "weights": 2 * all_of_them / 1e9,
                "gradients": 2 * trained / 1e9,
                "optimizer": 12 * trained / 1e9,
                "activations": sum(saved.by_module.values()) / 1e9,
                "trained": trained / 1e9,
            }
    return stages


def stage_chart(stages: Mapping[str, Mapping[str, float]], title: str, unit: str) -> Chart:
    """A bar per stage and role."""
    roles = ("weights", "gradients", "optimizer", "activations")
    lines = {role: [(stage, *3 * (held[role],)) for stage, held in stages.items()] for role in roles}
    return Chart(title, "what trains", unit, lines)


@claim(
    "families-llava-states",
    "Weights, gradients and optimizer state of LLaVA-1.5 7B take {expected[projector]:.1f} GB while the projector "
    "trains, {expected[projector and LLM]:.1f} GB while the LLM trains too, {expected[everything]:.1f} GB while "
    "everything trains.",
    expected={"projector": 14.4, "projector and LLM": 108.8, "everything": 113},
    unit="GB",
    tolerance=0.05,
    source=LLAVA,
)
def llava_states() -> Charted:
    """Counts parameters with fake tensors: 2 bytes per weight, and 14 more per weight that trains."""
    stages = llava_by_stage()
    states = {stage: held["weights"] + held["gradients"] + held["optimizer"] for stage, held in stages.items()}
    return Charted(states, stage_chart(stages, "A step of LLaVA-1.5 7B", "GB"))


@claim(
    "families-llava-activations",
    "A picture with 100 tokens of text keeps {expected[projector]:.2f} GB in LLaVA-1.5 7B while only the projector "
    "trains, {expected[projector and LLM]:.2f} GB while the LLM trains too, {expected[everything]:.2f} GB while "
    "everything trains.",
    expected={"projector": 2.878, "projector and LLM": 4.434, "everything": 4.891},
    unit="GB per picture with 100 tokens",
    tolerance=0.005,
)
def llava_activations() -> Mapping[str, float]:
    """Adds up what autograd saves in a forward pass and loss in bf16, with fake tensors."""
    return {stage: held["activations"] for stage, held in llava_by_stage().items()}


@claim(
    "families-projector-share",
    "The projector has {expected} % of the parameters of LLaVA-1.5 7B.",
    expected=0.3,
    unit="% of the parameters",
    tolerance=0.01,
)
def projector_share() -> float:
    """Counts the parameters with fake tensors."""
    with FakeTensorMode():
        model = Llava()
    counts = [sum(p.numel() for p in part.parameters()) for part in (model.projector, model)]
    return 100 * counts[0] / counts[1]


def small_towers() -> TwoTowers:
    """Two towers for pictures of digits and captions of 16 characters."""
    torch.manual_seed(0)
    text = GPTConfig(vocab_size=128, block_size=16, n_layer=2, n_head=4, hidden_dim=64)
    return TwoTowers(TwoTowersConfig(channels=1, text=text))


NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def captions_of(labels: Iterable[int]) -> Tensor:
    """Captions as character codes [B, 16], spaces in front, so that each ends with its last letter."""
    return torch.tensor([[ord(letter) for letter in f"the digit {NAMES[label]}".rjust(16)] for label in labels])


def pictures_of(images: Tensor) -> Tensor:
    """uint8 -> float, about -1 to 1."""
    return images.float() / 128 - 1


def some_pairs(count: int) -> tuple[Tensor, Tensor]:
    """Pictures of digits with captions, the first of the training set."""
    digits = load_images("digits")
    return pictures_of(digits.train_images[:count]), captions_of(digits.train_labels[:count].tolist())


@claim(
    "families-stages",
    "A step of small two towers on 64 pairs holds {expected[projections]:,} bytes while the projections train, "
    "{expected[text tower too]:,} while the text tower trains too, {expected[everything]:,} while everything trains.",
    expected={"projections": 1_417_512, "text tower too": 11_436_772, "everything": 13_382_900},
    unit="B of weights, gradients, optimizer state and activations",
)
def stages() -> Charted:
    """Adds the bytes of weights, gradients, AdamW's state, and the activations at the end of forward, by stage."""
    pictures, captions = some_pairs(64)
    held: dict[str, dict[str, float]] = {}
    for stage in STAGES:
        model = small_towers()
        optimizer = torch.optim.AdamW(model.begin_stage(stage))
        with PhaseMemory(model, optimizer, torch.device("cpu")) as memory:
            loss = contrastive_loss(model(pictures, captions))
            memory.record("forward")
            loss.backward()
            memory.record("backward")
            optimizer.step()
            memory.record("update")
        forward, backward, update = memory.rows
        held[stage] = {
            "weights": update.weights,
            "gradients": backward.gradients,
            "optimizer": update.optimizer,
            "activations": forward.activations,
        }
    totals = {stage: sum(roles.values()) for stage, roles in held.items()}
    return Charted(totals, stage_chart(held, "A step of two towers on 64 pairs", "bytes"))


@claim(
    "families-no-grad-cuts",
    "Behind a frozen language model the projector's {expected[frozen]} tensors get gradients; behind one that runs "
    "under no_grad {expected[no_grad]}.",
    expected={"frozen": 4, "no_grad": 0},
    unit="of 4 parameters with a gradient",
)
def no_grad_cuts() -> Mapping[str, float]:
    """Runs a projector in front of a GPT block that is frozen, or under no_grad, and counts gradients."""
    counts = {}
    for name in ("frozen", "no_grad"):
        projector = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16))
        block = Block(GPTConfig(vocab_size=1, n_head=2, hidden_dim=16)).requires_grad_(False)
        tokens = projector(torch.randn(2, 4, 8))
        with torch.set_grad_enabled(name == "frozen"):
            output = block(tokens)
        if output.requires_grad:
            output.sum().backward()
        counts[name] = sum(p.grad is not None for p in projector.parameters())
    return counts


@claim(
    "families-frozen-batchnorm",
    "A forward pass moves the averages of {expected[training mode]} of ResNet-50's 53 frozen BatchNorm layers in "
    "training mode, and of {expected[evaluation mode]} in evaluation mode.",
    expected={"training mode": 53, "evaluation mode": 0},
    unit="layers whose averages move",
)
def frozen_batchnorm() -> Mapping[str, float]:
    """Freezes all parameters, runs two pictures through, and compares the running averages before and after."""
    model = torchvision_models().resnet50().requires_grad_(False)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    moved = {}
    for name, training in (("training mode", True), ("evaluation mode", False)):
        model.train(training)
        before = [norm.running_mean.clone() for norm in norms if norm.running_mean is not None]
        model(torch.randn(2, 3, 64, 64))
        moved[name] = sum(not torch.equal(mean, norm.running_mean) for mean, norm in zip(before, norms, strict=True))  # type: ignore[arg-type]
    return moved


def gradient_of(model: TwoTowers, losses: Iterable[Tensor]) -> Tensor:
    """All gradients of the sum of some losses, one after the other; the model keeps none."""
    for loss in losses:
        loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    model.zero_grad()
    return gradient


def cached_gradient(model: TwoTowers, pictures: Tensor, captions: Tensor, size: int) -> Tensor:
    """The whole batch's gradient by micro-batches: embed without a graph, differentiate the loss, then embed again.

    The loss needs the embeddings of all pairs, but these are small. Its gradient with respect to them is handed to a
    second forward pass of each micro-batch (gradient caching, arXiv 2101.06983).
    """
    with torch.no_grad():
        images = torch.cat([model.embed_images(part) for part in pictures.split(size)])
        texts = torch.cat([model.embed_captions(part) for part in captions.split(size)])
    images.requires_grad_()
    texts.requires_grad_()
    contrastive_loss(model.compare(images, texts)).backward()
    assert images.grad is not None
    assert texts.grad is not None
    for part, gradient in zip(pictures.split(size), images.grad.split(size), strict=True):
        model.embed_images(part).backward(gradient)
    for part, gradient in zip(captions.split(size), texts.grad.split(size), strict=True):
        model.embed_captions(part).backward(gradient)
    return gradient_of(model, [])


@claim(
    "families-accumulation",
    "Of 64 pairs in 8 micro-batches, the mean of the gradients is {expected[accumulated]} % off the gradient of the "
    "whole batch; with cached embeddings it is {expected[cached]} % off.",
    expected={"accumulated": 15.7, "cached": 0},
    unit="% of the gradient's length",
    tolerance=0.5,
)
def accumulation() -> Mapping[str, float]:
    """Compares three gradients of the small towers at their first weights in float64."""
    model, (pictures, captions) = small_towers().double(), some_pairs(64)
    pictures = pictures.double()
    whole = gradient_of(model, [contrastive_loss(model(pictures, captions))])
    parts = zip(pictures.split(8), captions.split(8), strict=True)
    accumulated = gradient_of(model, (contrastive_loss(model(*part)) / 8 for part in parts))
    cached = cached_gradient(model, pictures, captions, 8)
    return {
        name: (100 * (gradient - whole).norm() / whole.norm()).item()
        for name, gradient in (("accumulated", accumulated), ("cached", cached))
    }


@claim(
    "families-towers-learn",
    "After 60 steps the small towers choose the right of ten captions for {expected} % of 360 held-out digits.",
    expected=97.8,
    unit="% of 360 pictures",
    tolerance=2.5,
)
def towers_learn() -> float:
    """Trains both towers on 60 batches of 64 digits with their names, then lets them choose among ten names."""
    digits, model = load_images("digits"), small_towers()
    optimizer = torch.optim.AdamW(model.begin_stage("everything"), lr=2e-3)
    draw = torch.Generator().manual_seed(1)
    for _ in range(60):
        chosen = torch.randint(len(digits.train_labels), (64,), generator=draw)
        captions = captions_of(digits.train_labels[chosen].tolist())
        loss = contrastive_loss(model(pictures_of(digits.train_images[chosen]), captions))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.limit_scale()
    with torch.no_grad():
        logits = model(pictures_of(digits.val_images), captions_of(range(10)))
    return 100 * (logits.argmax(1) == digits.val_labels).float().mean().item()
