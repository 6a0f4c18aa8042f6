// RUN: fxc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{a positional argument follows a keyword}}
fx.call_function @f(a = 1, 2) : () -> ()

// -----

// expected-error@+1 {{a keyword is given twice}}
fx.call_function @f(a = 1, a = 2) : () -> ()

// -----

// expected-error@+1 {{fx.call_function: 'args' must be #fx.tuple}}
"fx.call_function"() <{target = "f", args = 1 : i64}> : () -> ()

// -----

// expected-error@+1 {{fx.call_function: 'kwargs' must be #fx.dict}}
"fx.call_function"() <{target = "f", kwargs = [1]}> : () -> ()

// -----

// expected-error@+1 {{fx.call_function: a keyword must be a string}}
"fx.call_function"() <{target = "f", kwargs = #fx.dict<[1 : i64], [2 : i64]>}> : () -> ()

// -----

// expected-error@+1 {{#fx.dict has 2 keys, but 1 values}}
"fx.call_function"() <{target = "f", kwargs = #fx.dict<["a", "b"], [2 : i64]>}> : () -> ()

// -----

// expected-error@+1 {{fx.call_function needs a target}}
"fx.call_function"() <{args = #fx.tuple<[]>}> : () -> ()

// -----

// expected-error@+1 {{the arguments of fx.call_method take 1 operands, but it has 0}}
"fx.call_method"() <{target = "f", args = #fx.tuple<[#fx.ssa]>}> : () -> ()

// -----

// expected-error@+1 {{fx.call_function names 1 regions, but has 0}}
fx.call_function @f(@body) : () -> ()

// -----

// expected-error@+1 {{fx.call_function: 'args' is an argument and cannot be a discardable attribute too}}
fx.call_function @f() {args = 1} : () -> ()

// -----

// expected-error@+1 {{slice(...) takes 3 values}}
fx.call_function @f(slice(1, 2)) : () -> ()

// -----

// expected-error@+1 {{a number expected}}
fx.call_function @f(-x) : () -> ()

// -----

// expected-error@+1 {{a number cannot have the type tensor<f32>}}
fx.call_function @f(1 : tensor<f32>) : () -> ()

// -----

// expected-error@+1 {{a number cannot have the type i32}}
fx.call_function @f(1.5 : i32) : () -> ()

// -----

// expected-error@+1 {{expected 1 operand types but had 0}}
fx.call_function @f(1) : (tensor<f32>) -> ()

// -----

// expected-error@+1 {{fx.tensor: kind is parameter, buffer or constant, not weight}}
fx.tensor @w : tensor<2xf32> {kind = "weight"}

// -----

// expected-error@+1 {{property 'kind' expected in operation 'fx.tensor'}}
fx.tensor @w : tensor<2xf32>

// -----

// expected-error@+1 {{Operation fx.nothing is not registered}}
fx.nothing @f() : () -> ()

// -----

// expected-error@+1 {{an identifier expected after %}}
fx.call_function @f(%) : () -> ()

// -----

// expected-error@+1 {{unexpected character '²'}}
fx.call_function @f(²) : () -> ()

// -----

// expected-error@+1 {{a string literal that does not end on its line, or with an unknown escape sequence}}
fx.call_function @f("a) : () -> ()

// -----

// expected-error@+1 {{an integer type has at most 16777215 bits}}
fx.call_function @f(1 : i99999999999) : () -> ()

// -----

// expected-error@+1 {{Expected integer literal}}
func.func private @f(tensor<2xf32, #torch.meta<sizes = [none]>>)
