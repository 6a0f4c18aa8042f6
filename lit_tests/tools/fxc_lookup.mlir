// RUN: fxc passes | filecheck %s --check-prefix=PASSES
// RUN: fxc passes constant-propagation | filecheck %s --check-prefix=HELP
// RUN: fxc passes simplify | filecheck %s --check-prefix=NAMED
// RUN: not fxc passes constant-prop 2>&1 | filecheck %s --check-prefix=NO-PASS
// RUN: fxc ops | filecheck %s --check-prefix=OPS
// RUN: fxc ops aten::add_.Tensor | filecheck %s --check-prefix=ADD
// RUN: fxc ops aten.transpose.int | filecheck %s --check-prefix=VIEW
// RUN: fxc ops torch.aten.bernoulli | filecheck %s --check-prefix=OVERLOADS
// RUN: fxc ops fx.call_module | filecheck %s --check-prefix=OWN
// RUN: not fxc ops aten.reluu 2>&1 | filecheck %s --check-prefix=NO-OP

// PASSES:       Passes:
// PASSES:       dce
// HELP:         constant-propagation: Evaluate operations
// HELP:         Ensures  calls on constants
// HELP:         Options:
// HELP-NEXT:    max-elements: int (at least 0) = 64
// HELP:         Before:
// HELP:         After:
// NAMED:        simplify: a pipeline of
// NO-PASS:      error: there is no pass constant-prop
// NO-PASS-NEXT: hint: did you mean constant-propagation
// OPS:          fx.call_module
// OPS:          torch.aten.*
// ADD:          torch.aten.add_.Tensor
// ADD:          aten::add_(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
// ADD:          pointwise
// ADD:          mutates self
// ADD:          its result is self itself
// VIEW:         view: its result shares memory with self
// OVERLOADS:    torch.aten.bernoulli.default(Tensor self, *, Generator? generator=None) -> Tensor  [r]
// OWN:          fx.call_module
// OWN:          a submodule that
// NO-OP:        error: there is no op aten.reluu
// NO-OP-NEXT:   hint: did you mean aten.relu
