// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/spokewire/sdk-go/rsync/appcontext"
)

var (
	metadata = field.NewPath("metadata")
	spec     = field.NewPath("spec")
	groups   = spec.Child("rollout", "groups")
)

// checkName checks a name, which becomes part of the names of namespaces, works and topics.
func checkName(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, wrong := range utilvalidation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, wrong))
	}
	return errs
}

func checkLabels(path *field.Path, labels map[string]string) field.ErrorList {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if errs := metav1validation.ValidateLabels(map[string]string{key: labels[key]}, path); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

func checkSelector(path *field.Path, s *metav1.LabelSelector) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := checkLabels(path.Child("matchLabels"), s.MatchLabels)
	for i, e := range s.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		if len(errs) == 0 {
			valuesBelow := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}
			errs = metav1validation.ValidateLabelSelectorRequirement(e, valuesBelow, at)
		}
		for j, value := range e.Values {
			if len(errs) > 0 {
				return errs
			}
			for _, wrong := range utilvalidation.IsValidLabelValue(value) {
				errs = append(errs, field.Invalid(at.Child("values").Index(j), value, wrong))
			}
		}
	}
	return errs
}

// Validate checks the document without the others.
func (c *Cluster) Validate() field.ErrorList {
	errs := checkName(metadata.Child("name"), c.Metadata.Name)
	return append(errs, checkLabels(metadata.Child("labels"), c.Metadata.Labels)...)
}

// Validate checks the document without the others.
func (a *Application) Validate() field.ErrorList {
	errs := checkName(metadata.Child("name"), a.Metadata.Name)
	parts := spec.Child("parts")
	if len(a.Spec.Parts) == 0 {
		errs = append(errs, field.Required(parts, "an application needs at least one"))
	}
	names := map[string]bool{}
	for i := range a.Spec.Parts {
		if len(errs) > 0 {
			return errs
		}
		p, path := &a.Spec.Parts[i], parts.Index(i)
		errs = append(errs, checkName(path.Child("name"), p.Name)...)
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
		errs = append(errs, p.check(path)...)
	}
	for i := range a.Spec.Parts {
		for j, d := range a.Spec.Parts[i].DependsOn {
			if !names[d.Part] {
				return append(errs, field.NotFound(parts.Index(i).Child("dependsOn").Index(j).Child("part"), d.Part))
			}
		}
	}
	if len(errs) == 0 {
		errs = a.checkCycles(parts)
	}
	for i, g := range a.Spec.Groups() {
		if len(errs) == 0 {
			errs = g.Clusters.check(groups.Index(i).Child("clusters"))
		}
	}
	return errs
}

func (p *Part) check(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Manifests) == 0 {
		errs = append(errs, field.Required(path.Child("manifests"), "a part needs at least one"))
	}
	seen := map[string]bool{}
	for i, d := range p.DependsOn {
		if len(errs) > 0 {
			return errs
		}
		at := path.Child("dependsOn").Index(i)
		if seen[d.Part] {
			errs = append(errs, field.Duplicate(at.Child("part"), d.Part))
		}
		seen[d.Part] = true
		if d.Condition != "" && d.Condition != string(appcontext.OpStatusDeployed) &&
			d.Condition != string(appcontext.OpStatusReady) {
			errs = append(errs, field.NotSupported(at.Child("condition"), d.Condition,
				[]appcontext.OpStatus{appcontext.OpStatusDeployed, appcontext.OpStatusReady}))
		}
		switch wait, err := d.Delay(); {
		case err != nil:
			errs = append(errs, field.Invalid(at.Child("wait"), d.Wait, "must be a duration, for example 5m"))
		case wait < 0:
			errs = append(errs, field.Invalid(at.Child("wait"), d.Wait, "must not be negative"))
		}
	}
	for i, m := range p.Manifests {
		if len(errs) > 0 {
			return errs
		}
		at := path.Child("manifests").Index(i)
		if m.Hook != "" && !slices.Contains(appcontext.Hooks(), appcontext.Hook(m.Hook)) {
			errs = append(errs, field.NotSupported(at.Child("hook"), m.Hook, appcontext.Hooks()))
		}
		if strings.TrimSpace(m.Template) == "" {
			errs = append(errs, field.Required(at.Child("template"), "the template of the objects"))
		}
	}
	return errs
}

// checkCycles finds parts that wait for each other.
func (a *Application) checkCycles(parts *field.Path) field.ErrorList {
	waits := map[string][]string{}
	for _, p := range a.Spec.Parts {
		for _, d := range p.DependsOn {
			waits[p.Name] = append(waits[p.Name], d.Part)
		}
	}
	done := map[string]bool{}
	var visit func(name string, path []string) []string
	visit = func(name string, path []string) []string {
		if slices.Contains(path, name) {
			return append(path[slices.Index(path, name):], name)
		}
		if done[name] {
			return nil
		}
		done[name] = true
		for _, next := range waits[name] {
			if cycle := visit(next, append(path, name)); cycle != nil {
				return cycle
			}
		}
		return nil
	}
	for i, p := range a.Spec.Parts {
		if cycle := visit(p.Name, nil); cycle != nil {
			return field.ErrorList{field.Invalid(parts.Index(i).Child("dependsOn"), p.Name,
				"parts wait for each other: "+strings.Join(cycle, " for "))}
		}
	}
	return nil
}

// Validate checks the document without the others.
func (p *Placement) Validate() field.ErrorList {
	errs := checkName(metadata.Child("name"), p.Metadata.Name)
	if len(p.Spec.Applications) == 0 {
		errs = append(errs, field.Required(spec.Child("applications"), "a placement needs at least one"))
	}
	return append(errs, p.Spec.Clusters.check(spec.Child("clusters"))...)
}

func (c Clusters) check(path *field.Path) field.ErrorList {
	if len(c.Names) == 0 && c.Selector == nil {
		const text = "must have names or a selector; an empty selector selects all clusters"
		return field.ErrorList{field.Required(path, text)}
	}
	return checkSelector(path.Child("selector"), c.Selector)
}

// missing returns an error for a cluster name without a document.
func (c Clusters) missing(s *Set, where string, path *field.Path) error {
	for i, name := range c.Names {
		if s.Document(ClusterKind, name) == nil {
			return &Error{where, path.Child("names").Index(i).String(), fmt.Sprintf("there is no Cluster %q", name)}
		}
	}
	return nil
}

// Validate checks the references between documents. It returns the first missing one as an
// [*Error].
func (s *Set) Validate() error {
	for _, d := range s.Documents(PlacementKind) {
		p := d.Object.(*Placement)
		for i, name := range p.Spec.Applications {
			if s.Document(ApplicationKind, name) == nil {
				return &Error{d.Where, spec.Child("applications").Index(i).String(),
					fmt.Sprintf("there is no Application %q", name)}
			}
		}
		if err := p.Spec.Clusters.missing(s, d.Where, spec.Child("clusters")); err != nil {
			return err
		}
	}
	for _, d := range s.Documents(ApplicationKind) {
		for i, g := range d.Object.(*Application).Spec.Groups() {
			if err := g.Clusters.missing(s, d.Where, groups.Index(i).Child("clusters")); err != nil {
				return err
			}
		}
	}
	return nil
}
