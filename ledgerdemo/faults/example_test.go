package faults_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

func ExampleInjector() {
	injector, err := faults.NewInjector(faults.Plan{LoseResponses: 1}, func(k faults.Kind) { fmt.Println("fault:", k) })
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = injector.Intercept(context.Background(), nil, nil, func(context.Context, any) (any, error) {
		fmt.Println("executed")
		return "response", nil
	})
	fmt.Println(err)
	// Output:
	// executed
	// fault: response lost
	// rpc error: code = Unavailable desc = fault: the response was lost after the call was executed
}
