package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	duration = flag.Duration("torture.duration", time.Second, "how long each store is tortured with random faults")
	seed     = flag.Uint64("torture.seed", 0, "draws operations and faults; 0: a new one")
	allPairs = flag.Bool("torture.pairs", false, "crash at every pair of steps, not at every step alone")
)

// patience is how long a condition is waited for. It is far above what is
// needed, so that a loaded machine fails nothing.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if said, ok := os.LookupEnv(childVariable); ok {
		os.Exit(runChild(said))
	}
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	if registered != nil {
		fmt.Fprintln(os.Stderr, registered)
		os.Exit(1)
	}
	fmt.Println("seed", *seed) // also where the run does not come to its end
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	totals.print(os.Stdout)
	os.Exit(code)
}

// stream is the randomness of one part of a run: parts draw apart, so that each
// draws the same in every run of the same seed.
func stream(part uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, part)) }
