"""GPT-2 and Llama in plain PyTorch, as a user would write them for speed: flash attention, fused losses by compilation."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Sizes:
    layers: int
    hidden: int
    heads: int
    vocab: int
    llama: bool = False
    kv_heads: int = 0
    ffn: int = 0


SIZES = {
    "gpt2-124m": Sizes(12, 768, 12, 50304),
    "gpt2-1.5b": Sizes(48, 1600, 25, 50304),
    "llama-3b": Sizes(28, 3072, 24, 32000, llama=True, kv_heads=8, ffn=8192),
}


class Gpt2Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.norm1, self.norm2 = nn.LayerNorm(s.hidden), nn.LayerNorm(s.hidden)
        self.qkv, self.out = nn.Linear(s.hidden, 3 * s.hidden), nn.Linear(s.hidden, s.hidden)
        self.up, self.down = nn.Linear(s.hidden, 4 * s.hidden), nn.Linear(4 * s.hidden, s.hidden)

    def forward(self, x, rotation):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class ChunkedLoss(torch.autograd.Function):
    """Head and loss in one, some rows at a time: gradients are made with the loss, and no tensor holds all logits."""

    @staticmethod
    def forward(ctx, x, weight, targets, rows):
        dx, dweight = torch.empty_like(x), torch.zeros_like(weight, dtype=torch.float32)
        total = torch.zeros((), device=x.device, dtype=torch.float32)
        for part, label, d in zip(x.split(rows), targets.split(rows), dx.split(rows)):
            logits = (part @ weight.T).float()
            largest = torch.logsumexp(logits, dim=1, keepdim=True)
            total += (largest.squeeze(1) - logits.gather(1, label[:, None]).squeeze(1)).sum()
            gradient = torch.exp(logits - largest)
            gradient.scatter_add_(1, label[:, None], torch.full_like(largest, -1.0))
            gradient = (gradient / targets.numel()).to(x.dtype)
            d.copy_(gradient @ weight)
            dweight += gradient.T @ part
        ctx.save_for_backward(dx, dweight.to(weight.dtype))
        return total / targets.numel()

    @staticmethod
    def backward(ctx, scale):
        dx, dweight = ctx.saved_tensors
        return dx * scale, dweight * scale, None, None


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.kv_heads, self.width = s.heads, s.kv_heads, s.hidden // s.heads
        kv = self.kv_heads * self.width
        self.norm1, self.norm2 = nn.RMSNorm(s.hidden, eps=1e-5), nn.RMSNorm(s.hidden, eps=1e-5)
        self.qkv = nn.Linear(s.hidden, s.hidden + 2 * kv, bias=False)
        self.out = nn.Linear(s.hidden, s.hidden, bias=False)
        self.gate_up = nn.Linear(s.hidden, 2 * s.ffn, bias=False)
        self.down = nn.Linear(s.ffn, s.hidden, bias=False)

    def forward(self, x, rotation):
        B, T, C = x.shape
        kv = self.kv_heads * self.width
        q, k, v = self.qkv(self.norm1(x)).split((C, kv, kv), dim=2)
        q = rotate(q.view(B, T, self.heads, self.width).transpose(1, 2), *rotation)
        k = rotate(k.view(B, T, self.kv_heads, self.width).transpose(1, 2), *rotation)
        v = v.view(B, T, self.kv_heads, self.width).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=2)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """Returns the mean loss. GPT-2 has learned positions and a tied head; Llama rotary positions and its own head."""

    def __init__(self, s, length):
        super().__init__()
        self.loss_rows = 0  # rows of logits at a time; 0: all, and the compiler joins what follows
        self.embedding = nn.Embedding(s.vocab, s.hidden)
        self.positions = None if s.llama else nn.Embedding(length, s.hidden)
        self.blocks = nn.ModuleList((LlamaBlock if s.llama else Gpt2Block)(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.hidden, eps=1e-5) if s.llama else nn.LayerNorm(s.hidden)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)
        if not s.llama:
            self.head.weight = self.embedding.weight
        width = s.hidden // s.heads
        angles = torch.outer(torch.arange(length).float(), 1e4 ** -(torch.arange(0, width, 2).float() / width))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def embed(self, tokens):
        x = self.embedding(tokens)
        return x if self.positions is None else x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))

    def loss(self, x, targets):
        if self.loss_rows:
            x = self.norm(x)
            weight = self.head.weight
            if torch.is_autocast_enabled(x.device.type):
                x, weight = x.to(torch.bfloat16), weight.to(torch.bfloat16)
            return ChunkedLoss.apply(x.view(-1, x.shape[-1]), weight, targets.view(-1), self.loss_rows)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))

    def forward(self, tokens, targets):
        x, rotation = self.embed(tokens), (self.cos, self.sin)
        for block in self.blocks:
            x = block(x, rotation)
        return self.loss(x, targets)

    def compile_parts(self, mode=None):
        """One compilation serves all blocks, which keeps it short for deep models."""
        for block in self.blocks:
            block.compile(dynamic=False, mode=mode)
        self.loss = torch.compile(self.loss, dynamic=False, mode=mode)
