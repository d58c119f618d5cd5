package archtest

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/retrysafe/retrysafe"

// pkg is a package as go list knows it.
type pkg struct {
	ImportPath string
	// Imports are the packages that it names, Deps all that it pulls in.
	Imports, Deps []string
}

// rule is what the packages of one layer may import. Packages are named by
// patterns: "a/b" is that package, "a/b/..." it and all below it.
type rule struct {
	name   string
	of     []string // the layer, within the module
	except []string // packages of the layer that another rule is for
	// imports are the only packages, from outside the standard library, that
	// the layer may name. Nil: any.
	imports []string
	// neverImports are packages that the layer may not name.
	neverImports []string
	// deps are the only packages, from outside the standard library, that the
	// layer may pull in. Nil: any.
	deps []string
	// neverDeps are packages that the layer may not pull in.
	neverDeps []string
}

// violations says what in the packages breaks the rule, and how many packages
// the rule is for.
func (r rule) violations(packages []pkg) (found []string, governed int) {
	report := func(p pkg, does, what string) {
		found = append(found, fmt.Sprintf("%s %s %s", p.ImportPath, does, what))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if !matches(r.of, name) || matches(r.except, name) {
			continue
		}
		governed++
		for _, other := range p.Imports {
			if matches(r.neverImports, other) || r.imports != nil && !standard(other) && !matches(r.imports, other) {
				report(p, "imports", other)
			}
		}
		for _, other := range p.Deps {
			if matches(r.neverDeps, other) || r.deps != nil && !standard(other) && !matches(r.deps, other) {
				report(p, "pulls in", other)
			}
		}
	}
	return found, governed
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		below, all := strings.CutSuffix(pattern, "/...")
		return name == below || all && strings.HasPrefix(name, below+"/")
	})
}

// standard says whether a package is the standard library's: the first element
// of any other path has a dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
