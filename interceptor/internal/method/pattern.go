package method

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Table maps patterns to values. A pattern is "/package.Service/Method",
// "/package.Service/*" or "*"; the most specific one wins. The zero Table is
// empty and ready. Look-ups may run at once; Set may not run beside them.
type Table[T any] struct {
	values map[string]T
}

// Set maps pattern to v, in place of an earlier value. It fails where pattern
// is malformed, and where it names a method that its service does not have, so
// far as the service is in the registry of this program.
func (t *Table[T]) Set(pattern string, v T) error {
	if err := checkPattern(pattern); err != nil {
		return err
	}
	if t.values == nil {
		t.values = make(map[string]T)
	}
	t.values[pattern] = v
	return nil
}

// Lookup returns the value of the most specific pattern that fullMethod
// matches. A fullMethod is "/package.Service/Method".
func (t *Table[T]) Lookup(fullMethod string) (T, bool) {
	if len(t.values) == 0 {
		var none T
		return none, false
	}
	if v, ok := t.values[fullMethod]; ok {
		return v, true
	}
	if i := strings.LastIndexByte(fullMethod, '/'); i >= 0 {
		if v, ok := t.values[fullMethod[:i+1]+"*"]; ok {
			return v, true
		}
	}
	v, ok := t.values["*"]
	return v, ok
}

func checkPattern(pattern string) error {
	if pattern == "*" {
		return nil
	}
	service, method, ok := split(pattern)
	if !ok {
		return fmt.Errorf("pattern %q is none of /package.Service/Method, /package.Service/* and *", pattern)
	}
	d := findService(service)
	if d == nil || method == "*" {
		return nil
	}
	if d.Methods().ByName(protoreflect.Name(method)) == nil {
		return fmt.Errorf("pattern %q: service %s has no method %s", pattern, service, method)
	}
	return nil
}

// split takes "/package.Service/Method" apart.
func split(fullMethod string) (service, method string, ok bool) {
	rest, ok := strings.CutPrefix(fullMethod, "/")
	if !ok {
		return "", "", false
	}
	service, method, ok = strings.Cut(rest, "/")
	if !ok || !protoreflect.FullName(service).IsValid() {
		return "", "", false
	}
	if method != "*" && !protoreflect.Name(method).IsValid() {
		return "", "", false
	}
	return service, method, true
}

func findService(name string) protoreflect.ServiceDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	service, _ := d.(protoreflect.ServiceDescriptor)
	return service
}
