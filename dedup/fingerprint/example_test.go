package fingerprint_test

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/retrysafe/retrysafe/dedup/fingerprint"
)

// A map has no order, so two attempts that write it differently are the same
// request.
func ExampleMessage() {
	first, err := structpb.NewStruct(map[string]any{"account": "A-1", "amount": 1250})
	if err != nil {
		fmt.Println(err)
		return
	}
	repeat, err := structpb.NewStruct(map[string]any{"amount": 1250, "account": "A-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := fingerprint.Message(first)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := fingerprint.Message(repeat)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a == b)
	fmt.Println(a)
	// Output:
	// true
	// v2:2b118c7d
}
