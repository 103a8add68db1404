// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net/url"
	gopath "path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/spokewire/sdk-go/interpreter/internal/cabundle"
)

// Validate returns the first 10,000 errors of a configuration, with the path of each field.
// Defaults need not be set. It checks everything that the schema of the CRD checks, and fields that
// a schema cannot check, such as certificates.
func (c *ResourceExploringWebhookConfiguration) Validate() field.ErrorList {
	names := map[string]bool{}
	return validateWebhooks(c.Webhooks, func(w *ResourceExploringWebhook, path *field.Path) field.ErrorList {
		errs := validateCommon(w.Name, names, &w.ClientConfig, w.TimeoutSeconds, path)
		errs = append(errs, validateVersions(w.ExploreReviewVersions, path.Child("exploreReviewVersions"))...)
		if w.FailurePolicy != nil {
			known := []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail, admissionregistrationv1.Ignore}
			if !slices.Contains(known, *w.FailurePolicy) {
				errs = append(errs, field.NotSupported(path.Child("failurePolicy"), *w.FailurePolicy, known))
			}
		}
		return append(errs, validateEach(w.Rules, maxRules, path.Child("rules"), validateResourceRule)...)
	})
}

// Validate returns the first 10,000 errors of a configuration: see
// [ResourceExploringWebhookConfiguration.Validate].
func (c *ResourceInterpreterWebhookConfiguration) Validate() field.ErrorList {
	names := map[string]bool{}
	return validateWebhooks(c.Webhooks, func(w *ResourceInterpreterWebhook, path *field.Path) field.ErrorList {
		errs := validateCommon(w.Name, names, &w.ClientConfig, w.TimeoutSeconds, path)
		errs = append(errs, validateVersions(w.InterpreterContextVersions, path.Child("interpreterContextVersions"))...)
		return append(errs, validateEach(w.Rules, maxRules, path.Child("rules"), validateKindRule)...)
	})
}

// Limits of the CRDs.
const (
	maxWebhooks   = 128
	maxRules      = 64
	maxKinds      = 64 // also for groups and versions, in rules of the Interpret protocol
	maxOperations = 16
	maxVersions   = 16
	maxURL        = 2048
	maxGroup      = validation.DNS1123SubdomainMaxLength
	maxLabel      = validation.DNS1123LabelMaxLength
)

// maxErrors bounds the memory of the errors.
const maxErrors = 10_000

func validateWebhooks[W any](webhooks []W, validate func(*W, *field.Path) field.ErrorList) field.ErrorList {
	path := field.NewPath("webhooks")
	if webhooks == nil {
		return field.ErrorList{field.Required(path, "a list, which may be empty")}
	}
	errs := validateEach(webhooks, maxWebhooks, path, validate)
	return errs[:min(len(errs), maxErrors)]
}

// validateEach stops after maxErrors.
func validateEach[E any](
	list []E, most int, path *field.Path, validate func(*E, *field.Path) field.ErrorList,
) field.ErrorList {
	errs := validateCount(len(list), most, path)
	for i := 0; i < len(list) && len(errs) < maxErrors; i++ {
		errs = append(errs, validate(&list[i], path.Index(i))...)
	}
	return errs
}

// validateCommon checks the fields of both protocols. It adds the name to names.
func validateCommon(
	name string, names map[string]bool, client *admissionregistrationv1.WebhookClientConfig, timeout *int32,
	path *field.Path,
) field.ErrorList {
	errs := validateName(name, names, path.Child("name"))
	errs = append(errs, validateClientConfig(client, path.Child("clientConfig"))...)
	if timeout != nil && (*timeout < 1 || *timeout > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *timeout, "must be between 1 and 30 seconds"))
	}
	return errs
}

func validateCount(n, most int, path *field.Path) field.ErrorList {
	if n > most {
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	return nil
}

// validateLengths counts characters, as the API server does.
func validateLengths(list []string, most int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, s := range list {
		if utf8.RuneCountInString(s) > most {
			errs = append(errs, field.TooLong(path.Index(i), s, most))
		}
	}
	return errs
}

func validateName(name string, seen map[string]bool, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "a webhook needs a qualified name, such as workload.example.com")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if len(errs) == 0 && strings.Count(name, ".") < 2 {
		errs = append(errs, field.Invalid(path, name,
			"must be a domain of at least three parts, such as workload.example.com"))
	}
	if seen[name] {
		errs = append(errs, field.Duplicate(path, name))
	}
	seen[name] = true
	return errs
}

func validateClientConfig(c *admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case c.URL == nil && c.Service == nil:
		errs = append(errs, field.Required(path, "exactly one of url and service is required"))
	case c.URL != nil && c.Service != nil:
		errs = append(errs, field.Forbidden(path, "exactly one of url and service is required: both are set"))
	case c.URL != nil:
		errs = append(errs, validateURL(*c.URL, path.Child("url"))...)
	default:
		errs = append(errs, validateService(c.Service, path.Child("service"))...)
	}
	if len(c.CABundle) > 0 {
		if err := cabundle.Check(c.CABundle); err != nil {
			errs = append(errs, field.Invalid(path.Child("caBundle"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs
}

// validateURL returns errors without the URL: its user or query may be secret.
func validateURL(text string, path *field.Path) field.ErrorList {
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "is not a URL: write https://host:port/path")}
	}
	var errs field.ErrorList
	invalid := func(message string) { errs = append(errs, field.Invalid(path, field.OmitValueType{}, message)) }
	if scheme, _, _ := strings.Cut(text, ":"); scheme != "https" { // case-sensitive, like the schema
		invalid(fmt.Sprintf("the scheme is %q: it must be https", scheme))
	}
	if utf8.RuneCountInString(text) > maxURL {
		errs = append(errs, field.TooLong(path, field.OmitValueType{}, maxURL))
	}
	if u.Hostname() == "" {
		invalid("has no host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || len(validation.IsValidPortNum(n)) > 0 {
			invalid("must have a port between 1 and 65535")
		}
	}
	if u.User != nil {
		invalid("must not have a user or a password")
	}
	if u.RawQuery != "" || u.ForceQuery {
		invalid("must not have a query")
	}
	if u.Fragment != "" || strings.HasSuffix(text, "#") {
		invalid("must not have a fragment")
	}
	return errs
}

func validateService(s *admissionregistrationv1.ServiceReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"name", s.Name}, {"namespace", s.Namespace}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), "the service's "+f.name))
			continue
		}
		for _, message := range validation.IsDNS1123Label(f.value) { // it becomes part of a host name
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, message))
		}
	}
	if s.Port != nil {
		for _, message := range validation.IsValidPortNum(int(*s.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), *s.Port, message))
		}
	}
	if s.Path != nil && !plainPath(*s.Path) {
		errs = append(errs, field.Invalid(path.Child("path"), field.OmitValueType{},
			"must be a path that begins with one /, without //, . and .. in it, query, fragment and %"))
	}
	return errs
}

// plainPath reports whether a path reaches a server unchanged. It may end with /.
func plainPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, "?#%") &&
		strings.TrimSuffix(gopath.Clean(p), "/") == strings.TrimSuffix(p, "/")
}

func validateVersions(versions []string, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must include one of "+Version)}
	}
	errs := validateCount(len(versions), maxVersions, path)
	seen := map[string]bool{}
	for i, v := range versions {
		for _, message := range validation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, message))
		}
		if seen[v] {
			errs = append(errs, field.Duplicate(path.Index(i), v))
		}
		seen[v] = true
	}
	if !seen[Version] {
		errs = append(errs, field.Invalid(path, versions, "must include one of "+Version))
	}
	return errs
}

func validateResourceRule(r *RuleWithOperations, path *field.Path) field.ErrorList {
	known := func(o OperationType) bool { _, ok := o.Interpreter(); return ok }
	errs := validateOperations(r.Operations, known, path.Child("operations"))
	errs = append(errs, validateList(r.APIGroups, path.Child("apiGroups"), true)...)
	errs = append(errs, validateList(r.APIVersions, path.Child("apiVersions"), false)...)
	errs = append(errs, validateList(r.Resources, path.Child("resources"), false)...)
	for i, resource := range r.Resources {
		if _, sub, found := strings.Cut(resource, "/"); found && sub != "*" {
			errs = append(errs, field.Invalid(path.Child("resources").Index(i), resource, "must not name a subresource"))
		}
	}
	if r.Scope != nil {
		known := []admissionregistrationv1.ScopeType{
			admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope, admissionregistrationv1.AllScopes,
		}
		if !slices.Contains(known, *r.Scope) {
			errs = append(errs, field.NotSupported(path.Child("scope"), *r.Scope, known))
		}
	}
	return errs
}

func validateKindRule(r *KindRuleWithOperations, path *field.Path) field.ErrorList {
	errs := validateOperations(r.Operations, InterpreterOperation.Known, path.Child("operations"))
	for _, list := range []struct {
		name   string
		values []string
		length int
	}{{"apiGroups", r.APIGroups, maxGroup}, {"apiVersions", r.APIVersions, maxLabel}, {"kinds", r.Kinds, maxLabel}} {
		at := path.Child(list.name)
		errs = append(errs, validateList(list.values, at, list.name == "apiGroups")...)
		errs = append(errs, validateCount(len(list.values), maxKinds, at)...)
		errs = append(errs, validateLengths(list.values, list.length, at)...)
	}
	return errs
}

func validateOperations[O ~string](list []O, known func(O) bool, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "at least one operation, or *")}
	}
	errs := validateCount(len(list), maxOperations, path)
	for i, o := range list {
		switch {
		case o == "*" && len(list) > 1:
			errs = append(errs, field.Invalid(path, list, "'*' must be alone"))
		case o != "*" && !known(o):
			errs = append(errs, field.Invalid(path.Index(i), o, "is not an operation of this protocol"))
		}
	}
	return errs
}

// validateList checks one list of a rule. Only a group may be empty: it is the core group.
func validateList(list []string, path *field.Path, empty bool) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "at least one, or *")}
	}
	var errs field.ErrorList
	for i, s := range list {
		if s == "" && !empty {
			errs = append(errs, field.Required(path.Index(i), ""))
		}
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		errs = append(errs, field.Invalid(path, list, "'*' must be alone"))
	}
	return errs
}
