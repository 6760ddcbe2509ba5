"""Modules as people write them, with example inputs, for the tests of load_pt2. `CASES` contains a
function per module, which returns a Case.
"""

import dataclasses
import math
import typing

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

BATCH = Dim("batch", min=1, max=32)
LENGTH = Dim("length", min=4, max=16)
AUTO = Dim.DYNAMIC


@dataclasses.dataclass
class Case:
    module: nn.Module
    calls: list  # tuples of positional arguments; the first one is the example of the export
    dynamic: typing.Any = None
    kwargs: dict = dataclasses.field(default_factory=dict)  # of all calls
    train: bool = False
    tolerance: float = 1e-5


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Function(nn.Module):
    """A module without parameters."""

    def __init__(self, forward):
        super().__init__()
        self.forward = forward


def reals(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


def ids(*shapes, count=11):
    return [(torch.randint(count, shape),) for shape in shapes]


BATCHED = ({0: BATCH},)
SEQUENCES = ({0: BATCH, 1: LENGTH},)


# Perceptrons and convolutions


@case
def mlp():
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(8),
                        nn.Linear(8, 4), nn.SiLU(), nn.Linear(4, 3), nn.LogSoftmax(-1))
    return Case(net, reals((2, 6), (1, 6), (9, 6)), BATCHED)


@case
def activations():
    layers = [nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.ELU(), nn.SELU(), nn.CELU(),
              nn.GELU("tanh"), nn.Mish(), nn.Softplus(), nn.Softsign(), nn.Tanhshrink(),
              nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(), nn.LogSigmoid(), nn.Softmin(-1),
              nn.GLU(), nn.Threshold(0.1, 2.0), nn.Softshrink(), nn.Hardshrink()]
    return Case(Parallel(layers), reals((2, 6), (5, 6)), BATCHED)


class Parallel(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return [layer(x) for layer in self.layers]


class ResNetBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                        nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return F.relu(y, inplace=True)


def resnet():
    return nn.Sequential(nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1), ResNetBlock(4, 8, 2), ResNetBlock(8, 8, 1),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


@case
def resnet_in_eval_mode():
    return Case(resnet(), reals((2, 3, 32, 32), (1, 3, 32, 32), (3, 3, 32, 32)), BATCHED)


@case
def resnet_in_training_mode():
    return Case(resnet(), reals((4, 3, 32, 32), (4, 3, 32, 32)), train=True, tolerance=1e-4)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = self.block(1, 4)
        self.down2 = self.block(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.up_block = self.block(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    @staticmethod
    def block(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs),
                             nn.ReLU())

    def forward(self, x):
        skip = self.down1(x)
        y = self.up(self.down2(F.max_pool2d(skip, 2)))
        return self.head(self.up_block(torch.cat([skip, y], 1)))


@case
def unet():
    return Case(UNet(), reals((2, 1, 16, 12), (1, 1, 16, 12)), BATCHED)


@case
def depthwise_and_dilated_convolutions():
    net = nn.Sequential(nn.Conv1d(4, 8, 3, padding="same", dilation=2), nn.Conv1d(8, 8, 3, groups=8),
                        nn.InstanceNorm1d(8, affine=True), nn.ConstantPad1d(1, 0.5),
                        nn.Conv1d(8, 2, 1), nn.ReflectionPad1d(2))
    return Case(net, reals((2, 4, 12), (3, 4, 12)), BATCHED)


@case
def convolution_3d():
    net = nn.Sequential(nn.Conv3d(1, 2, 3, padding=1), nn.BatchNorm3d(2), nn.AvgPool3d(2),
                        nn.Flatten(2))
    return Case(net, reals((2, 1, 4, 6, 4), (1, 1, 4, 6, 4)), BATCHED)


@case
def pooling():
    layers = [nn.MaxPool2d(2), nn.AvgPool2d(3, 1, 1), nn.AdaptiveAvgPool2d((2, 3)),
              nn.AdaptiveMaxPool2d(2), nn.LPPool2d(2, 2), nn.MaxPool2d(3, 2, ceil_mode=True)]
    return Case(Parallel(layers), reals((2, 3, 8, 10), (3, 3, 8, 10)), BATCHED)


@case
def interpolation():
    layers = [nn.Upsample(scale_factor=2), nn.Upsample((7, 9), mode="bilinear"),
              nn.Upsample(scale_factor=1.5, mode="bicubic", align_corners=True),
              nn.Upsample((3, 4), mode="area"), nn.PixelShuffle(2)]
    return Case(Parallel(layers), reals((2, 4, 5, 6), (1, 4, 5, 6)), BATCHED)


@case
def grid_sampling():
    def forward(images, theta):
        grid = F.affine_grid(theta, images.shape, align_corners=False)
        return F.grid_sample(images, grid, align_corners=False)
    return Case(Function(forward), [(torch.randn(n, 3, 5, 6), torch.randn(n, 2, 3)) for n in (2, 4)],
                ({0: BATCH}, {0: BATCH}))


# Recurrent layers


class Tagger(nn.Module):
    def __init__(self, layer, **options):
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.rnn = layer(5, 6, batch_first=True, **options)

    def forward(self, tokens):
        return self.rnn(self.embedding(tokens))


@case
def lstm():
    return Case(Tagger(nn.LSTM, num_layers=2, bidirectional=True), ids((2, 6), (4, 6)), BATCHED)


@case
def lstm_with_projections():
    return Case(nn.LSTM(5, 6, proj_size=3), reals((7, 2, 5)))


@case
def gru():
    return Case(Tagger(nn.GRU), ids((2, 6), (1, 6)), BATCHED)


@case
def rnn():
    return Case(Tagger(nn.RNN, nonlinearity="relu"), ids((2, 6), (3, 6)), BATCHED)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTMCell(4, 5)
        self.gru = nn.GRUCell(5, 3)

    def forward(self, x, state):
        hidden, cell = state
        outputs = []
        for step in x.unbind(1):
            hidden, cell = self.lstm(step, (hidden, cell))
            outputs.append(self.gru(hidden))
        return torch.stack(outputs, 1), (hidden, cell)


@case
def recurrent_cells_with_given_state():
    def call(n):
        return (torch.randn(n, 3, 4), (torch.randn(n, 5), torch.randn(n, 5)))
    return Case(Cells(), [call(2), call(3)], ({0: BATCH}, ({0: BATCH}, {0: BATCH})))


# Transformers


@case
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    return Case(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                reals((2, 6, 8), (1, 9, 8), (3, 4, 8)), SEQUENCES)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target, padding):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True,
                                src_key_padding_mask=padding)


@case
def encoder_decoder_with_masks():
    def call(n, length):
        padding = torch.zeros(n, length, dtype=torch.bool)
        padding[:, -1] = True
        return (torch.randn(n, length, 8), torch.randn(n, 5, 8), padding)
    both = {0: BATCH, 1: LENGTH}
    return Case(Translator(), [call(2, 6), call(3, 9)], (both, {0: BATCH}, both))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, mask=None):
        return self.attention(x, x, x, key_padding_mask=mask)


@case
def multihead_attention_with_weights():
    return Case(Attention(), reals((2, 6, 8), (3, 4, 8)), ({0: BATCH, 1: LENGTH}, None),
                kwargs={"mask": None})


class CausalAttention(nn.Module):
    """Causal attention of GPT-2 with rotary positions."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        angles = torch.outer(torch.arange(16.0), 100 ** (-torch.arange(0, 4, 2) / 4))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x):
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


@case
def causal_attention_with_rotary_positions():
    return Case(CausalAttention(), reals((2, 6, 8), (1, 16, 8), (3, 4, 8)), SEQUENCES)


class LanguageModel(nn.Module):
    """GPT with tied weights; returns the loss, too, if there are targets."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.positions = nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = CausalAttention()
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets=None):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        logits = self.head(x + self.attention(self.norm(x)))
        if targets is None:
            return {"logits": logits, "loss": None}
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), targets.flatten())}


@case
def language_model_without_targets():
    return Case(LanguageModel(), ids((2, 6), (1, 16)), SEQUENCES)


@case
def language_model_with_targets():
    calls = [(torch.randint(11, s), torch.randint(11, s)) for s in ((2, 6), (3, 9))]
    return Case(LanguageModel(), calls, 2 * SEQUENCES)


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.block(x)[:, 0])


@case
def vision_transformer():
    return Case(VisionTransformer(), reals((2, 3, 8, 8), (4, 3, 8, 8)), BATCHED)


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.experts = nn.Parameter(torch.randn(4, 6, 6))

    def forward(self, x):
        weights, experts = self.router(x).softmax(-1).topk(2)
        return torch.einsum("bk,bkij,bj->bi", weights, self.experts[experts], x)


@case
def mixture_of_experts():
    return Case(MixtureOfExperts(), reals((3, 6), (1, 6)), BATCHED)


class RmsNorm(nn.Module):
    """RMSNorm and LLaMA's feed-forward, computed in bfloat16."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8)
        self.gate, self.up, self.down = nn.Linear(8, 12), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@case
def llama_feed_forward_in_bfloat16():
    calls = [(torch.randn(s, 8, dtype=torch.bfloat16),) for s in (2, 5)]
    return Case(RmsNorm().bfloat16(), calls, BATCHED, tolerance=2e-2)


# Embeddings, norms and losses


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.sum = nn.EmbeddingBag(11, 4, mode="sum")
        self.max = nn.EmbeddingBag(11, 4, mode="max")
        self.padded = nn.Embedding(11, 4, padding_idx=0)

    def forward(self, ids, offsets):
        return self.sum(ids, offsets), self.max(ids.view(2, -1)), self.padded(ids)


@case
def embedding_bags():
    return Case(Bags(), [(torch.randint(11, (8,)), torch.tensor([0, 3, 5])) for _ in range(2)])


@case
def batch_norm_in_training_mode():
    return Case(nn.BatchNorm1d(6), reals((4, 6), (7, 6)), BATCHED, train=True)


@case
def norms():
    layers = [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, track_running_stats=True), nn.BatchNorm2d(4),
              nn.LocalResponseNorm(3), nn.LayerNorm([5, 6]), nn.utils.parametrizations.weight_norm(
                  nn.Conv2d(4, 2, 1)), nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 2, 1))]
    return Case(Parallel(layers), reals((2, 4, 5, 6), (3, 4, 5, 6)), BATCHED)


@case
def losses():
    def forward(logits, classes, values):
        return (F.cross_entropy(logits, classes, label_smoothing=0.1), F.mse_loss(logits, values),
                F.binary_cross_entropy_with_logits(logits, values.sigmoid()),
                F.smooth_l1_loss(logits, values), F.kl_div(logits, values.softmax(-1)),
                F.nll_loss(logits.log_softmax(-1), classes), F.cosine_similarity(logits, values))
    def call(n):
        return (torch.randn(n, 5), torch.randint(5, (n,)), torch.randn(n, 5))
    return Case(Function(forward), [call(3), call(6)], ({0: BATCH},) * 3)


class VariationalAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.decoder = nn.Linear(4, 6)

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        decoded = self.decoder(mean + noise * (log_variance / 2).exp()).sigmoid()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
        return decoded, mean, divergence


@case
def variational_autoencoder_with_given_noise():
    return Case(VariationalAutoencoder(), [(torch.randn(n, 6), torch.randn(n, 4)) for n in (2, 5)],
                ({0: BATCH}, {0: BATCH}))


# Tensor functions


@case
def gather_and_scatter():
    def forward(x, index):
        zeros = torch.zeros_like(x)
        return (x.gather(1, index), zeros.scatter(1, index, 1.0), zeros.scatter_add(1, index, x),
                zeros.scatter_reduce(1, index, x, "amax"), x.index_select(1, index[0]),
                zeros.index_add(1, index[0], x[:, : index.shape[1]]), x.gather(0, index[:1] * 0))
    def call(n):
        return (torch.randn(n, 5), torch.stack([torch.randperm(5)[:3] for _ in range(n)]))
    return Case(Function(forward), [call(2), call(4)], ({0: BATCH}, {0: BATCH}))


@case
def indexing():
    def forward(x):
        y = x.clone()
        y[:, 0] = 1
        y[:, 1:3] += 2
        y[x > 1] = -1
        return (x[:, -1], x[..., ::2], x[[0, 0], 1], x[:, None], x[:, torch.tensor([3, 1])], y,
                x.masked_fill(x < 0, -math.inf), x.roll(1, 1), x.flip(0), x.narrow(1, 1, 2))
    return Case(Function(forward), reals((2, 4), (5, 4)), BATCHED)


@case
def sorting():
    def forward(x):
        return (*x.topk(3), *x.sort(-1, descending=True), x.argsort(), *x.max(-1), *x.median(-1),
                *x.kthvalue(2), x.argmax(-1), x.unique_consecutive(), x.quantile(0.3))
    return Case(Function(forward), reals((2, 5), (4, 5)), BATCHED)


@case
def cumulative_functions():
    def forward(x):
        return (x.cumsum(1), x.cumprod(1), *x.cummax(1), x.logcumsumexp(1), x.diff(), x.var(1),
                x.std(0, correction=0), x.norm(dim=1), x.logsumexp(1), x.prod(1), x.amin((0, 1)))
    return Case(Function(forward), reals((2, 6), (3, 9)), SEQUENCES)


@case
def products():
    def forward(x, y):
        return (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij->bji", x), x @ y[0],
                torch.baddbmm(x @ y, x, y, beta=0.5), torch.tensordot(x, y, ([2], [1])),
                torch.cdist(x, y.mT), torch.linalg.vector_norm(x, dim=-1), torch.outer(x[0, 0], y[0, 0]))
    def call(n):
        return (torch.randn(n, 3, 4), torch.randn(n, 4, 5))
    return Case(Function(forward), [call(2), call(4)], ({0: BATCH}, {0: BATCH}), tolerance=1e-4)


@case
def linear_algebra():
    def forward(x):
        spd = x @ x.mT + torch.eye(4)
        return (torch.linalg.cholesky(spd), torch.linalg.inv(spd), torch.linalg.det(spd),
                torch.linalg.solve(spd, x), torch.linalg.eigvalsh(spd), torch.linalg.svdvals(x))
    return Case(Function(forward), reals((2, 4, 4), (3, 4, 4)), BATCHED, tolerance=1e-3)


@case
def complex_fourier_transforms():
    def forward(x):
        spectrum = torch.fft.rfft(x)
        low = spectrum * (torch.arange(spectrum.shape[-1]) < 3)
        z = torch.complex(x, x.flip(-1))
        return (spectrum, low.abs(), spectrum.angle(), torch.fft.irfft(low, n=8), torch.fft.fft2(z),
                torch.view_as_real(z.conj().resolve_conj()), z.real * z.imag, torch.polar(x.abs(), x))
    return Case(Function(forward), reals((2, 8), (5, 8)), BATCHED)


class Spectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, x):
        spectrum = torch.stft(x, 8, 4, window=self.window, return_complex=True)
        return spectrum.abs().log1p(), torch.istft(spectrum, 8, 4, window=self.window)


@case
def spectrogram():
    return Case(Spectrogram(), reals((2, 32), (3, 32)), BATCHED, tolerance=1e-4)


@case
def dtypes():
    def forward(x, n):
        return (x.double(), x.half().float(), n.float() / 3, n // 2, n % 3, n << 1, x.long(), x > 0,
                ~(x > 0), x.bool().any(), n.clamp(2, 5), x.to(torch.bfloat16), n.sum(), n.float().mean(),
                torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), F.one_hot(n, 11))
    return Case(Function(forward), [(torch.randn(n, 3), torch.randint(11, (n, 3))) for n in (2, 4)],
                ({0: BATCH}, {0: BATCH}))


@case
def creation():
    def forward(x):
        rows, columns = x.shape
        mask = torch.ones(columns, columns, dtype=torch.bool).tril()
        return (torch.arange(rows), torch.linspace(0, 1, 5), torch.full((rows, 2), 7), mask,
                torch.eye(columns), x.new_zeros(rows * columns), torch.empty_like(x).fill_(3),
                torch.meshgrid(torch.arange(rows), torch.arange(2), indexing="ij"),
                torch.tensor([[1.0, 2.0]]).expand(rows, 2), x * math.pi, torch.triu(x, 1))
    return Case(Function(forward), reals((2, 6), (4, 9)), SEQUENCES)


@case
def shapes():
    def forward(x):
        batch, length, width = x.shape
        return (x.view(batch, -1), x.reshape(-1, width), x.unflatten(2, (2, -1)), x.split(3, -1),
                x.chunk(2, -1), x.repeat(1, 2, 1), x.tile(2), x.repeat_interleave(2, 1), x.mT,
                x.movedim(0, -1), x.unfold(1, 2, 1), F.pad(x, (1, 2)), x.expand(2, -1, -1, -1),
                x[:, 1 : length - 1], x.sum() / (batch * length), torch.stack([x, x], 1),
                torch.cat([x, x[:, :1]], 1), x.permute(2, 0, 1).contiguous(), batch, length * 2.5)
    return Case(Function(forward), reals((2, 5, 6), (3, 8, 6)), SEQUENCES)


class IndexingBySizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)

    def forward(self, tokens):
        x = self.embedding(tokens)  # (B, T, 4)
        length = tokens.shape[1]
        last = x[torch.arange(x.shape[0]), -1]
        return (x[:, length - 2 :], last, x[..., [0, 2]], x.reshape(-1, 2), x * length,
                x + length // 2, x / length)


@case
def indexing_by_sizes():
    return Case(IndexingBySizes(), ids((2, 5), (3, 16), (1, 4)), SEQUENCES)


# Inputs and outputs


class Classifier(nn.Module):
    """Has dictionaries, lists, optional tensors and constants as inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, batch, states, mask=None, *, bias=None, scale=2.0, mode="sum"):
        y = self.linear(batch["x"]) * scale
        if bias is not None:
            y = y + bias
        return {"logits": y, "states": (states[0] + 1, [states[1], mask]),
                "extra": {"size": batch["x"].shape[0], "ids": batch["ids"]}}


@case
def nested_inputs_and_outputs():
    def call(n):
        return ({"x": torch.randn(n, 4), "ids": torch.arange(n)}, [torch.randn(2), torch.randn(1)])
    return Case(Classifier(), [call(2), call(5)],
                {"batch": {"x": {0: BATCH}, "ids": {0: BATCH}}, "states": [None, None],
                 "bias": None, "scale": None, "mode": None},
                kwargs={"bias": torch.randn(3), "scale": 3.0, "mode": "sum"})


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
torch.serialization.add_safe_globals([Pair])  # for the example inputs in the archive


@case
def named_tuples():
    return Case(Function(lambda pair: Pair(pair.first + 1, {"sum": pair.second.sum()})),
                [(Pair(torch.randn(n, 3), torch.randn(n)),) for n in (2, 4)],
                (Pair({0: BATCH}, {0: BATCH}),))


@case
def numbers_as_inputs_and_outputs():
    def forward(x, count):
        return x[:count] * count, count >> 1, x.shape[1]
    return Case(Function(forward), [(torch.randn(9, 3), 4), (torch.randn(9, 3), 7)], ({}, AUTO))


class Frozen(nn.Module):
    """Has buffers, tied weights, tensor constants and a weight that is a view."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3).t())
        self.register_buffer("scale", torch.rand(5))
        self.register_buffer("not_saved", torch.randn(5), persistent=False)
        self.constant = torch.randn(5)
        self.tied = self.weight

    def forward(self, x):
        return x @ self.weight * self.scale + self.not_saved + self.constant * 2, x @ self.tied


@case
def buffers_and_constants():
    return Case(Frozen(), reals((2, 3), (4, 3)), BATCHED)


class KvCache(nn.Module):
    """Mutates its buffers, as an incremental decoder does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.register_buffer("length", torch.tensor(0))

    def forward(self, x):
        self.keys.index_copy_(0, self.length.unsqueeze(0), x)
        self.length.add_(1)
        return (x @ self.keys.T).softmax(-1) @ self.keys, self.length * 2


@case
def mutated_buffers():
    return Case(KvCache(), reals((1, 4), (1, 4), (1, 4)))


class ShiftRegister(nn.Module):
    """Shifts values through two buffers and returns the previous value."""

    def __init__(self):
        super().__init__()
        self.register_buffer("previous", torch.zeros(3))
        self.register_buffer("current", torch.zeros(3))

    def forward(self, x):
        self.previous.copy_(self.current)
        self.current.copy_(x.sum(0))
        return self.previous


@case
def buffers_assigned_to_each_other():
    return Case(ShiftRegister(), reals((2, 3), (4, 3), (2, 3)), BATCHED)


@case
def mutated_inputs():
    def forward(x):
        x.mul_(2)
        return x + 1
    return Case(Function(forward), reals((2, 3), (4, 3)), BATCHED)


# Sizes that depend on values, and control flow


@case
def sizes_that_depend_on_values():
    def forward(x, lengths):
        count = lengths.sum().item()
        torch._check(count >= 0)
        return (x.nonzero(), x[x > 0].sum(), torch.zeros(count), torch.arange(count) * 2,
                torch.repeat_interleave(lengths), count)
    return Case(Function(forward), [(torch.randn(n, 3), torch.tensor([n, 2, 1])) for n in (3, 5)],
                ({0: BATCH}, None))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (self.left(x), x.sin()),
                          lambda x: (self.right(x).relu(), x * 2), (x,))


@case
def cond_on_a_tensor():
    x = torch.rand(2, 3)
    return Case(Gated(), [(x,), (-x,), (torch.rand(4, 3),)], BATCHED)


@case
def cond_on_a_size():
    def forward(x):
        return torch.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x - 1, (x,))
    return Case(Function(forward), reals((3, 3), (7, 3)), BATCHED)


@case
def nested_cond():
    def inner(x):
        return torch.cond(x.max() > 2, lambda x: x / 2, lambda x: x * 3, (x,))

    def forward(x):
        return torch.cond(x.sum() > 0, inner, lambda x: x.exp(), (x,))
    return Case(Function(forward), [(torch.full((2,), v),) for v in (1.0, 3.0, -1.0)])


@case
def while_loop():
    def forward(x, limit):
        def condition(count, y):
            return (count < limit) & (y.sum() < 1000)

        def body(count, y):
            return count + 1, y * 1.5 + x
        start = (torch.zeros((), dtype=torch.int64), x.abs())
        return torch._higher_order_ops.while_loop(condition, body, start)
    return Case(Function(forward), [(torch.randn(3), torch.tensor(n)) for n in (3, 0, 50)])


@case
def scan():
    def forward(x, hidden):
        def step(hidden, x):
            hidden = (hidden + x).tanh()
            return hidden, hidden * 2
        return torch._higher_order_ops.scan(step, hidden, x)
    return Case(Function(forward), [(torch.randn(n, 3), torch.randn(3)) for n in (5, 8)],
                ({0: LENGTH}, None))


@case
def map_over_rows():
    def forward(x, y):
        return torch._higher_order_ops.map(lambda row, y: row.softmax(-1) * y, x, y)
    return Case(Function(forward), [(torch.randn(n, 3), torch.randn(3)) for n in (5, 8)],
                ({0: LENGTH}, None))


class Modes(nn.Module):
    """Has regions under torch.no_grad and under autocast, enabled and disabled."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            y = x * self.linear.weight[0]
            z = y + x.shape[0] * 2
            fraction = x.shape[0] / 4  # a SymFloat
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = self.linear(y)
            with torch.autocast("cpu", enabled=False):
                rows = y.sum(1)
        with torch.no_grad():
            again = x * rows.unsqueeze(1)
        return y * self.linear.weight[1] + z * fraction, low, rows, again, y


@case
def gradient_mode_and_autocast():
    return Case(Modes(), reals((2, 3), (6, 3)), BATCHED, tolerance=2e-2)
