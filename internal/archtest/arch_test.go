package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"testing"
)

var (
	protobuf = []string{"google.golang.org/protobuf/...", module + "/gen/..."}
	grpc     = []string{"google.golang.org/grpc/...", "google.golang.org/genproto/..."}
	http     = []string{"net/http/..."}
	// inherited is everything that a user of the interceptors inherits: gRPC,
	// protobuf, the OpenTelemetry API, and what those need.
	inherited = slices.Concat(grpc, protobuf, []string{
		module + "/...",
		"go.opentelemetry.io/otel/...",
		"github.com/cespare/xxhash/v2/...",
		"golang.org/x/net/...",
		"golang.org/x/sys/...",
		"golang.org/x/text/...",
	})
	stores = []string{"dedup/sqlitestore/...", "dedup/pgstore/...", "dedup/redisstore/..."}
	queues = []string{
		"interceptor/deadletter/sqlitequeue/...", "interceptor/deadletter/pgqueue/...",
		"interceptor/deadletter/internal/sqlqueue/...",
	}
)

var rules = []rule{
	{
		name:         "the interceptors and the engine bring no driver, no HTTP stack and no command line",
		of:           []string{"interceptor/...", "dedup/..."},
		except:       slices.Concat(stores, queues),
		deps:         inherited,
		neverImports: http,
		neverDeps:    []string{"database/sql/..."},
	},
	{
		name:    "the engine knows of gRPC no more than its codes, and nothing of protobuf",
		of:      []string{"dedup"},
		imports: []string{"google.golang.org/grpc/codes"},
	},
	{
		name:         "stores know neither gRPC nor protobuf",
		of:           stores,
		neverImports: slices.Concat(grpc, protobuf, http, []string{module + "/interceptor/..."}),
	},
	{
		name:    "the conformance suite needs the standard library alone",
		of:      []string{"dedup/storetest"},
		imports: []string{module + "/dedup", "google.golang.org/grpc/codes"},
	},
	{
		name:         "deduplication does not know who calls it",
		of:           []string{"dedup/..."},
		neverImports: []string{module + "/interceptor/...", module + "/ledgerdemo/..."},
	},
	{
		name:      "the library does not know its demonstration or its test servers",
		of:        []string{"dedup/...", "interceptor/...", "gen/retrysafe/..."},
		neverDeps: []string{module + "/ledgerdemo/...", module + "/internal/...", module + "/gen/ledger/..."},
	},
	{
		name:         "only suites for tests import testing",
		of:           []string{"dedup/...", "interceptor/...", "gen/...", "ledgerdemo/..."},
		except:       []string{"dedup/storetest", "interceptor/deadletter/queuetest"},
		neverImports: []string{"testing/..."},
	},
}

func TestLayersKeepApart(t *testing.T) {
	packages := list(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			found, governed := r.violations(packages)
			for _, violation := range found {
				t.Error(violation)
			}
			if governed == 0 {
				t.Error("the rule is for no package at all")
			}
		})
	}
}

// list returns the packages of the module, as they are without their tests.
func list(t *testing.T) []pkg {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...")
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &failure)
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestARuleFindsWhatBreaksIt(t *testing.T) {
	engine := pkg{
		ImportPath: module + "/dedup",
		Imports:    []string{"context", "google.golang.org/grpc/codes", "google.golang.org/grpc/status"},
		Deps:       []string{"context", "net/http", "google.golang.org/grpc/codes", "github.com/jackc/pgx/v5"},
	}
	for _, test := range []struct {
		name string
		rule rule
		want []string
	}{
		{"an import that is not listed", rule{of: []string{"dedup"}, imports: []string{"google.golang.org/grpc/codes"}},
			[]string{module + "/dedup imports google.golang.org/grpc/status"}},
		{"an import that is forbidden", rule{of: []string{"dedup/..."}, neverImports: []string{"context"}},
			[]string{module + "/dedup imports context"}},
		{"a package pulled in that is not listed", rule{of: []string{"dedup"}, deps: []string{"google.golang.org/grpc/..."}},
			[]string{module + "/dedup pulls in github.com/jackc/pgx/v5"}},
		{"a package pulled in that is forbidden", rule{of: []string{"dedup"}, neverDeps: []string{"net/http/..."}},
			[]string{module + "/dedup pulls in net/http"}},
		{"another layer", rule{of: []string{"interceptor/..."}, neverImports: []string{"context"}}, nil},
		{"an exception", rule{of: []string{"dedup/..."}, except: []string{"dedup"}, neverImports: []string{"context"}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, _ := test.rule.violations([]pkg{engine}); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
