module {
  coreai.graph @main(%s: !coreai.handle<tensor<?x2xf32>> {coreai.name = "cache"}, %at: tensor<1xsi32> {coreai.name = "x"}, %row: tensor<1x2xf32> {coreai.name = "y"}) -> (!coreai.token {coreai.name = "cache"}, tensor<1x2xf32> {coreai.name = "sum"}) {
    %zero = coreai.constant dense<0> : tensor<1xsi32>
    %axis = coreai.constant dense<0> : tensor<si32>
    %one = coreai.constant dense<1> : tensor<1xsi32>
    %ones = coreai.constant dense<1> : tensor<2xsi32>
    %width = coreai.constant dense<2> : tensor<1xsi32>
    %next = "coreai.add"(%at, %one) : (tensor<1xsi32>, tensor<1xsi32>) -> tensor<1xsi32>
    %start = "coreai.concat"(%axis, %at, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %end = "coreai.concat"(%axis, %next, %width) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %zeros = "coreai.concat"(%axis, %zero, %zero) : (tensor<si32>, tensor<1xsi32>, tensor<1xsi32>) -> tensor<2xsi32>
    %t = "coreai.create_token"() : () -> !coreai.token
    %old, %t1 = "coreai.read_handle"(%s, %t) : (!coreai.handle<tensor<?x2xf32>>, !coreai.token) -> (tensor<?x2xf32>, !coreai.token)
    %new = "coreai.slice_update"(%old, %start, %end, %ones, %row) : (tensor<?x2xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>, tensor<1x2xf32>) -> tensor<?x2xf32>
    %t2 = "coreai.write_handle"(%s, %new, %t1) : (!coreai.handle<tensor<?x2xf32>>, tensor<?x2xf32>, !coreai.token) -> !coreai.token
    %all, %t3 = "coreai.read_handle"(%s, %t2) : (!coreai.handle<tensor<?x2xf32>>, !coreai.token) -> (tensor<?x2xf32>, !coreai.token)
    %valid = "coreai.slice"(%all, %zeros, %end, %ones) : (tensor<?x2xf32>, tensor<2xsi32>, tensor<2xsi32>, tensor<2xsi32>) -> tensor<?x2xf32>
    %sum = "coreai.reduce_sum"(%valid, %zero) : (tensor<?x2xf32>, tensor<1xsi32>) -> tensor<1x2xf32>
    coreai.output %t3, %sum : !coreai.token, tensor<1x2xf32>
  }
}
