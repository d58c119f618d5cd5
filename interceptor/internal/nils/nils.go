// Package nils finds nil in whatever clothes it comes.
package nils

import "reflect"

// Is says whether v is nil, or a nil pointer, map, function, slice or channel
// in an interface, which v == nil does not see.
func Is(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Slice, reflect.Chan:
		return r.IsNil()
	}
	return false
}
