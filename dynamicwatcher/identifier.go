// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicwatcher

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spokewire/sdk-go/internal/cut"
)

// These constants limit the parts of an identifier, in bytes. API servers accept requests of 1 MiB.
const (
	longestName     = 4 << 10
	longestSelector = 256 << 10
)

// ObjectIdentifier identifies an object of the Kubernetes API, or with a Selector in place of the
// Name any number of objects. It is comparable.
type ObjectIdentifier struct {
	// Group is empty for the core group.
	Group string
	// Version and Kind are required.
	Version string
	Kind    string
	// Namespace is empty for a cluster-scoped object. With a Selector, empty means all namespaces.
	Namespace string
	// Name is the object's name. Either Name or Selector is required, not both.
	Name string
	// Selector is a label selector in kubectl's syntax, such as "app=web,tier!=cache", of at most
	// 256 KiB. A watcher has a name and no selector.
	Selector string
}

// String returns the identifier for logs: kind, group version, namespace and name.
func (o ObjectIdentifier) String() string {
	s := fmt.Sprintf("GroupVersion=%s, Kind=%s, Namespace=%s, Name=%s",
		o.GroupVersionKind().GroupVersion(), o.Kind, o.Namespace, o.Name)
	if o.Selector != "" {
		s += ", Selector=" + o.Selector
	}
	return s
}

// GroupVersionKind returns the kind.
func (o ObjectIdentifier) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

// Validate returns an [*IdentifierError] with the invalid field and the reason, or nil.
func (o ObjectIdentifier) Validate() error {
	if err := o.validateParts(); err != nil {
		return err
	}
	switch {
	case o.Name == "" && o.Selector == "":
		return o.invalid("Name", "required without a Selector")
	case o.Name != "" && o.Selector != "":
		return o.invalid("Selector", "must be empty with a Name")
	case o.Selector != "":
		if _, err := metav1.ParseToLabelSelector(o.Selector); err != nil {
			return &IdentifierError{Object: o, Field: "Selector", Reason: "not a label selector", Err: err}
		}
	}
	return nil
}

// validateParts rejects missing parts, and those that would change the path of a request.
func (o ObjectIdentifier) validateParts() error {
	switch {
	case o.Version == "":
		return o.invalid("Version", "required")
	case strings.Contains(o.Version, "/"):
		return o.invalid("Version", "must not contain a slash: set Group")
	case o.Kind == "":
		return o.invalid("Kind", "required")
	}
	for _, part := range []struct {
		field, value string
		most         int
	}{
		{"Group", o.Group, longestName}, {"Version", o.Version, longestName}, {"Kind", o.Kind, longestName},
		{"Namespace", o.Namespace, longestName}, {"Name", o.Name, longestName}, {"Selector", o.Selector, longestSelector},
	} {
		if len(part.value) > part.most {
			return o.invalid(part.field, fmt.Sprintf("%d bytes: must have at most %d", len(part.value), part.most))
		}
	}
	for _, segment := range []struct{ field, value string }{
		{"Group", o.Group}, {"Version", o.Version}, {"Namespace", o.Namespace}, {"Name", o.Name},
	} {
		if faults := content.IsPathSegmentName(segment.value); len(faults) > 0 {
			return o.invalid(segment.field, fmt.Sprintf("%q: %s", segment.value, faults[0]))
		}
	}
	return nil
}

func (o ObjectIdentifier) invalid(field, reason string) error {
	return &IdentifierError{Object: o, Field: field, Reason: reason}
}

func (o ObjectIdentifier) lacksNamespace() error {
	return o.invalid("Namespace", "required for a namespaced kind")
}

// validateWatcher also checks the rules that apply only to watchers.
func validateWatcher(o ObjectIdentifier) error {
	if o.Selector != "" && o.Name == "" {
		return o.invalid("Name", "required: a watcher is one object")
	}
	return o.Validate()
}

// identify returns the identifier of a query, which may have neither name nor selector.
func identify(gvk schema.GroupVersionKind, namespace, name string, selector labels.Selector) ObjectIdentifier {
	id := ObjectIdentifier{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Name: name}
	if selector != nil {
		id.Selector = selector.String()
	}
	return id
}

// IdentifierError is an [ErrInvalidInput] that reports the invalid field of an identifier.
type IdentifierError struct {
	Object ObjectIdentifier
	Field  string
	Reason string
	Err    error // the cause, or nil
}

// Error returns the field, the reason and the identifier.
func (e *IdentifierError) Error() string {
	const most = 1024 // bytes of an identifier that is too long
	s := fmt.Sprintf("invalid %s of %s: %s", e.Field, cut.Text(e.Object.String(), most), e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrInvalidInput and the cause.
func (e *IdentifierError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrInvalidInput}
	}
	return []error{ErrInvalidInput, e.Err}
}
