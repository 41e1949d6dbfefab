"""muon.py - examples/plugins/muon.c beside Muon's and AdamW's published rules in
PyTorch. usage: muon.py LIBMUON"""
import ctypes
import sys

import torch

c_float_p = ctypes.POINTER(ctypes.c_float)


class Tensor(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("at", "rows", "cols")] + [
        ("kind", ctypes.c_int32), ("decays", ctypes.c_int16),
        ("number", ctypes.c_int16)]


class Args(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64)
                for n in ("elems", "decay", "grad_at", "param_at", "block")] + [
        ("ntensors", ctypes.c_int32), ("tensors", Tensor * 12),
        ("lr", ctypes.c_double), ("betas", ctypes.c_double * 2),
        ("eps", ctypes.c_double), ("weight_decay", ctypes.c_double),
        ("unused", ctypes.c_double), ("nesterov", ctypes.c_int),
        ("momentum", ctypes.c_double), ("adam", ctypes.c_double)]


class Control(ctypes.Structure):
    _fields_ = [("step", ctypes.c_int64)] + [
        (n, ctypes.c_double)
        for n in ("lr", "correction1", "correction2", "norm", "scale")]


class Buf(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                ("elems", ctypes.c_int64), ("dtype", ctypes.c_int)]


class Call(ctypes.Structure):
    _fields_ = [("bufs", ctypes.POINTER(Buf)), ("nbufs", ctypes.c_uint),
                ("args", ctypes.c_void_p), ("fresh", ctypes.c_uint),
                ("scratch", ctypes.c_void_p), ("host", ctypes.c_void_p)]


class Codelet(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint), ("op", ctypes.c_void_p),
                ("cpu", ctypes.CFUNCTYPE(None, ctypes.POINTER(Call)))]


class Plugin(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_uint), ("name", ctypes.c_char_p),
                ("summary", ctypes.c_char_p), ("ops", ctypes.c_void_p),
                ("codelets", ctypes.POINTER(ctypes.POINTER(Codelet)))]


MATRIX, VECTOR = 0, 1
LR, ADAM, WD, BETAS, EPS, MOMENTUM = 0.02, 0.1, 0.1, (0.9, 0.95), 1e-8, 0.95


def orthogonal(g):
    """Newton-Schulz, as published, in float64."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.size(0) > g.size(1)
    x = g.T if tall else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


def muon(p, g, m):
    m.lerp_(g, 1 - MOMENTUM)
    u = orthogonal(g.lerp(m, MOMENTUM)) * max(1, g.size(0) / g.size(1)) ** 0.5
    p.mul_(1 - LR * WD).add_(u, alpha=-LR)


def main():
    torch.manual_seed(1)
    plugin = Plugin.in_dll(ctypes.CDLL(sys.argv[1]), "dsflow_plugin")
    update = plugin.codelets[0].contents.cpu
    shapes = [(24, 56, MATRIX), (40, 24, MATRIX), (16, 16, MATRIX),
              (1, 48, VECTOR)]
    args, at = Args(ntensors=len(shapes)), 0
    for i, (rows, cols, kind) in enumerate(shapes):
        args.tensors[i] = Tensor(at, rows, cols, kind, kind == MATRIX)
        at += (rows * cols + 15) // 16 * 16
    args.elems, args.decay = at, at
    args.betas[0], args.betas[1], args.eps = *BETAS, EPS
    args.lr, args.weight_decay = LR, WD
    args.momentum, args.adam = MOMENTUM, ADAM

    g, p, m, v = (torch.zeros(at) for _ in range(4))
    scratch = torch.zeros(4 * at)

    def view(x, t):
        return x[t.at:t.at + t.rows * t.cols].view(t.rows, t.cols)

    tensors = [args.tensors[i] for i in range(len(shapes))]
    for t in tensors:
        view(p, t).copy_(torch.randn(t.rows, t.cols))
    expected = [view(p, t).double().clone() for t in tensors]
    momenta = [torch.zeros_like(e) for e in expected]
    vector = torch.nn.Parameter(expected[-1].clone())
    adamw = torch.optim.AdamW([vector], lr=LR * ADAM, betas=BETAS, eps=EPS,
                              weight_decay=0)
    worst = 0
    for step in range(1, 6):
        control = Control(step, LR, 1 - BETAS[0] ** step, 1 - BETAS[1] ** step,
                          1, 0.5)
        for t in tensors:
            view(g, t).copy_(torch.randn(t.rows, t.cols))
        bufs = (Buf * 5)(Buf(ctypes.addressof(control), ctypes.sizeof(control)),
                         *(Buf(x.data_ptr(), 4 * at, at) for x in (g, p, m, v)))
        update(Call(bufs, 5, ctypes.addressof(args), 0, scratch.data_ptr(),
                    None))
        for t, e, b in zip(tensors, expected, momenta):
            if t.kind == MATRIX:
                muon(e, view(g, t).double() * 0.5, b)
        vector.grad = view(g, tensors[-1]).double() * 0.5
        adamw.step()
        expected[-1] = vector.detach()
        for t, e in zip(tensors, expected):
            worst = max(worst, (view(p, t).double() - e).abs().max().item())
    print(f"Muon: 5 steps within {worst:.1e} of PyTorch")
    sys.exit(worst > 2e-5)


main()
