"""A transformer in plain PyTorch, with the names of attend's weights. It is written as in nanoGPT: fused
attention, one matrix for query, key and value, tied embeddings."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias)
        self.out = nn.Linear(width, width, bias)

    def forward(self, x, causal):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)  # (B, H, T, D)
                   for part in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias)
        self.down = nn.Linear(4 * width, width, bias)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, bias)
        self.norm2 = nn.LayerNorm(width, bias=bias)
        self.feed_forward = FeedForward(width, bias)

    def forward(self, x, causal):
        x = x + self.attention(self.norm1(x), causal)
        return x + self.feed_forward(self.norm2(x))


class Stack(nn.Module):
    def __init__(self, layers, width, heads, bias):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=bias)

    def forward(self, x, causal=False):
        for block in self.blocks:
            x = block(x, causal)
        return self.norm(x)


class Embedding(nn.Module):
    def __init__(self, vocab, tokens, width):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(tokens, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position(torch.arange(tokens.size(1), device=tokens.device))


class LanguageModel(nn.Module):
    def __init__(self, vocab, tokens, layers, width, heads):
        super().__init__()
        self.embedding = Embedding(vocab, tokens, width)
        self.decoder = Stack(layers, width, heads, bias=False)

    def forward(self, tokens, targets):
        """Returns the mean loss."""
        logits = F.linear(self.decoder(self.embedding(tokens), causal=True), self.embedding.token.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
