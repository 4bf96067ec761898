"""PyTorch at tang's shapes, for the comparisons in docs/BENCHMARKING.md. Run it in the same minute as tang-bench.

  python3 tests/peers/torch_peer.py step --precision bf16 --seq 1024      the 350m-gqa training step on the GPU
  python3 tests/peers/torch_peer.py step --device cpu --model small       the 5.8 M parameter step on the CPU
  python3 tests/peers/torch_peer.py attention --seq 512,1024,2048         attention alone, forward and backward
  python3 tests/peers/torch_peer.py memory                                norms, SwiGLU, cross-entropy, AdamW
Each line is: what, median milliseconds, tokens/s or TFLOP/s or GB/s.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

MODELS = {
    "350m": dict(vocab=50304, dim=1024, layers=24, heads=16, kv_heads=8, head_dim=64, ffn=2816),
    "small": dict(vocab=4096, dim=256, layers=6, heads=8, kv_heads=4, head_dim=32, ffn=768),
}


def backend(name):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
                        "efficient": SDPBackend.EFFICIENT_ATTENTION}[name])


def attend(q, k, v):
    """Causal grouped attention; heads are repeated where no grouped kernel exists (f32, and old releases)."""
    if not hasattr(F, "scaled_dot_product_attention"):
        group, length = q.shape[1] // k.shape[1], q.shape[2]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = torch.full((length, length), float("-inf"), device=q.device).triu(1)
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + mask, -1) @ v
    if q.dtype == torch.float32:
        group = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1),
                                              is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def normalise(x, weight):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), 1e-5)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)


class Llama(torch.nn.Module):
    def __init__(self, vocab, dim, layers, heads, kv_heads, head_dim, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.layers = heads, kv_heads, head_dim, layers
        weight = lambda *shape: torch.nn.Parameter(torch.randn(*shape) * 0.02)
        self.table = weight(vocab, dim)
        qkv_rows = (heads + 2 * kv_heads) * head_dim
        self.qkv = torch.nn.ParameterList(weight(qkv_rows, dim) for _ in range(layers))
        self.out = torch.nn.ParameterList(weight(dim, heads * head_dim) for _ in range(layers))
        self.gate_up = torch.nn.ParameterList(weight(2 * ffn, dim) for _ in range(layers))
        self.down = torch.nn.ParameterList(weight(dim, ffn) for _ in range(layers))
        self.norms = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(dim)) for _ in range(2 * layers + 1))

    def forward(self, ids, targets, cos, sin):
        batch, length = ids.shape
        x = F.embedding(ids, self.table)
        for layer in range(self.layers):
            packed = F.linear(normalise(x, self.norms[2 * layer]), self.qkv[layer])
            split = lambda t: t.view(batch, length, -1, self.head_dim).transpose(1, 2)
            sizes = [self.heads * self.head_dim] + 2 * [self.kv_heads * self.head_dim]
            q, k, v = (split(t) for t in packed.split(sizes, -1))
            y = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
            x = x + F.linear(y.transpose(1, 2).reshape(batch, length, -1), self.out[layer])
            gate, up = F.linear(normalise(x, self.norms[2 * layer + 1]), self.gate_up[layer]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, self.down[layer])
        logits = F.linear(normalise(x, self.norms[-1]), self.table)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


def timed(device, body, repeats, warmup):
    """Median milliseconds of body(), each call synchronised."""
    samples = []
    for i in range(warmup + repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        body()
        if device == "cuda":
            torch.cuda.synchronize()
        if i >= warmup:
            samples.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(samples)


def step(a):
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
    shape = MODELS[a.model]
    model = Llama(**shape).to(a.device)
    parameters = sum(p.numel() for p in model.parameters())
    batch = a.tokens // a.seq
    ids = torch.randint(0, shape["vocab"], (batch, a.seq + 1), device=a.device)
    frequency = 10000.0 ** (-torch.arange(0, shape["head_dim"], 2, device=a.device).float() / shape["head_dim"])
    angle = torch.outer(torch.arange(a.seq, device=a.device).float(), frequency)
    extra = dict(fused=True) if a.device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **extra)
    run = torch.compile(model) if a.compile else model

    def one():
        if a.device == "cuda":
            with torch.autocast("cuda", torch.bfloat16, enabled=a.precision == "bf16"), \
                    backend("cudnn" if a.precision == "bf16" else "efficient"):
                loss = run(ids[:, :-1], ids[:, 1:], angle.cos(), angle.sin())
        else:
            loss = run(ids[:, :-1], ids[:, 1:], angle.cos(), angle.sin())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    ms = timed(a.device, one, a.repeats, 4)
    tokens = batch * a.seq
    flops = 6 * parameters + 6 * shape["layers"] * a.seq * shape["heads"] * shape["head_dim"]
    peak = torch.cuda.max_memory_allocated() / 2**30 if a.device == "cuda" else 0
    print(f"torch {torch.__version__} step {a.model} {a.device} {a.precision} T={a.seq} compile={a.compile}: {ms:.2f} ms "
          f"{tokens / ms * 1e3:.0f} tok/s {tokens * flops / ms / 1e9:.2f} TFLOP/s peak {peak:.1f} GiB", flush=True)


def attention(a):
    for length in (int(t) for t in str(a.lengths).split(",")):
        dtype = torch.float32 if a.precision == "f32" else torch.bfloat16
        batch = max(1, a.tokens // length)
        make = lambda heads: torch.randn(batch, length, heads, a.head_dim, device="cuda",
                                         dtype=dtype).transpose(1, 2).requires_grad_()
        q, k, v = make(16), make(8), make(8)
        for name in (["efficient"] if a.precision == "f32" else ["cudnn", "flash"]):
            with backend(name):
                y = attend(q, k, v)
                dy = torch.randn_like(y)
                from triton.testing import do_bench
                forward = do_bench(lambda: attend(q, k, v), return_mode="median")
                backward = do_bench(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True),
                                    return_mode="median")
            flops = 2 * batch * 16 * length * length * a.head_dim
            print(f"torch attention {a.precision} {name} hd={a.head_dim} T={length}: forward {forward:.3f} ms "
                  f"{flops / forward / 1e9:.0f} TFLOP/s, backward {backward:.3f} ms {2.5 * flops / backward / 1e9:.0f} TFLOP/s",
                  flush=True)


def memory(_):
    from triton.testing import do_bench
    rows, dim, ffn, vocab = 32768, 1024, 2816, 50304
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    x, w, gate_up, logits = make(rows, dim), make(dim), make(rows, 2 * ffn), make(8192, vocab)
    targets = torch.randint(0, vocab, (8192,), device="cuda")
    for name, function, inputs, forward_bytes, backward_bytes in (
            ("rmsnorm", lambda: F.rms_norm(x, (dim,), w, 1e-5), (x, w), 4 * x.numel(), 6 * x.numel()),
            ("swiglu", lambda: F.silu(gate_up[:, :ffn]) * gate_up[:, ffn:], (gate_up,), 6 * rows * ffn, 10 * rows * ffn),
            ("cross_entropy", lambda: F.cross_entropy(logits.float(), targets), (logits,), 2 * logits.numel(),
             4 * logits.numel())):
        run = torch.compile(function)
        y = run()
        dy = torch.randn_like(y)
        forward = do_bench(run, return_mode="median")
        backward = do_bench(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True), return_mode="median")
        print(f"torch {name}: forward {forward:.3f} ms {forward_bytes / forward / 1e6:.0f} GB/s, "
              f"backward {backward:.3f} ms {backward_bytes / backward / 1e6:.0f} GB/s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["step", "attention", "memory"])
    parser.add_argument("--model", default="350m", choices=list(MODELS))
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--precision", default="bf16", choices=["bf16", "f32", "tf32"])
    parser.add_argument("--seq", dest="lengths", default="1024", help="length; a comma list for attention")
    parser.add_argument("--tokens", type=int, default=0, help="tokens a step (0: 32768 on the GPU, 2048 on the CPU)")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--eager", dest="compile", action="store_false")
    arguments = parser.parse_args()
    if arguments.what == "step":
        arguments.seq = int(arguments.lengths)
    if arguments.device == "cpu":
        arguments.precision = "f32"
    arguments.tokens = arguments.tokens or (32768 if arguments.device == "cuda" else 2048)
    {"step": step, "attention": attention, "memory": memory}[arguments.what](arguments)
