// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
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

// check returns the first error of a document without the others. Only the first is reported, so
// checks stop there.
func check(o object) *field.Error {
	switch o := o.(type) {
	case interface{ check() *field.Error }:
		return o.check()
	case interface{ Validate() field.ErrorList }:
		if errs := o.Validate(); len(errs) > 0 {
			return errs[0]
		}
	}
	return nil
}

var (
	metadata = field.NewPath("metadata")
	spec     = field.NewPath("spec")
	groups   = spec.Child("rollout", "groups")
)

// checkName checks a name, which becomes part of the names of namespaces, works and topics.
func checkName(path *field.Path, name string) *field.Error {
	if wrong := utilvalidation.IsDNS1123Label(name); len(wrong) > 0 {
		return field.Invalid(path, name, wrong[0])
	}
	return nil
}

func checkLabels(path *field.Path, labels map[string]string) *field.Error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if errs := metav1validation.ValidateLabels(map[string]string{key: labels[key]}, path); len(errs) > 0 {
			return errs[0]
		}
	}
	return nil
}

func checkSelector(path *field.Path, s *metav1.LabelSelector) *field.Error {
	if err := checkLabels(path.Child("matchLabels"), s.MatchLabels); err != nil {
		return err
	}
	for i, e := range s.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		valuesBelow := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}
		if errs := metav1validation.ValidateLabelSelectorRequirement(e, valuesBelow, at); len(errs) > 0 {
			return errs[0]
		}
		for j, value := range e.Values {
			if wrong := utilvalidation.IsValidLabelValue(value); len(wrong) > 0 {
				return field.Invalid(at.Child("values").Index(j), value, wrong[0])
			}
		}
	}
	return nil
}

func (c *Cluster) check() *field.Error {
	return cmp.Or(checkName(metadata.Child("name"), c.Metadata.Name),
		checkLabels(metadata.Child("labels"), c.Metadata.Labels))
}

func (a *Application) check() *field.Error {
	if err := checkName(metadata.Child("name"), a.Metadata.Name); err != nil {
		return err
	}
	parts, names := spec.Child("parts"), map[string]bool{}
	if len(a.Spec.Parts) == 0 {
		return field.Required(parts, "an application needs at least one")
	}
	for i := range a.Spec.Parts {
		p, path := &a.Spec.Parts[i], parts.Index(i)
		err := checkName(path.Child("name"), p.Name)
		if err == nil && names[p.Name] {
			err = field.Duplicate(path.Child("name"), p.Name)
		}
		if err = cmp.Or(err, p.check(path)); err != nil {
			return err
		}
		names[p.Name] = true
	}
	for i := range a.Spec.Parts {
		for j, d := range a.Spec.Parts[i].DependsOn {
			if !names[d.Part] {
				return field.NotFound(parts.Index(i).Child("dependsOn").Index(j).Child("part"), d.Part)
			}
		}
	}
	err := a.checkCycles(parts)
	for i, g := range a.Spec.Groups() {
		err = cmp.Or(err, g.Clusters.check(groups.Index(i).Child("clusters")))
	}
	return err
}

func (p *Part) check(path *field.Path) *field.Error {
	seen := map[string]bool{}
	for i, d := range p.DependsOn {
		at := path.Child("dependsOn").Index(i)
		if seen[d.Part] {
			return field.Duplicate(at.Child("part"), d.Part)
		}
		seen[d.Part] = true
		conditions := []appcontext.OpStatus{appcontext.OpStatusDeployed, appcontext.OpStatusReady}
		if d.Condition != "" && !slices.Contains(conditions, appcontext.OpStatus(d.Condition)) {
			return field.NotSupported(at.Child("condition"), d.Condition, conditions)
		}
		switch wait, err := d.delay(); {
		case err != nil:
			return field.Invalid(at.Child("wait"), d.Wait, "must be a duration, for example 5m")
		case wait < 0:
			return field.Invalid(at.Child("wait"), d.Wait, "must not be negative")
		}
	}
	if len(p.Manifests) == 0 {
		return field.Required(path.Child("manifests"), "a part needs at least one")
	}
	for i, m := range p.Manifests {
		at := path.Child("manifests").Index(i)
		if m.Hook != "" && !slices.Contains(appcontext.Hooks(), appcontext.Hook(m.Hook)) {
			return field.NotSupported(at.Child("hook"), m.Hook, appcontext.Hooks())
		}
		if strings.TrimSpace(m.Template) == "" {
			return field.Required(at.Child("template"), "the template of the objects")
		}
	}
	return nil
}

// checkCycles finds parts that wait for each other.
func (a *Application) checkCycles(parts *field.Path) *field.Error {
	var apps []appcontext.App
	for i := range a.Spec.Parts {
		apps = append(apps, a.Spec.Parts[i].App())
	}
	cycle := appcontext.Cycle(apps)
	for i, app := range apps {
		if len(cycle) > 0 && app.Name == cycle[0] {
			return field.Invalid(parts.Index(i).Child("dependsOn"), app.Name,
				"parts wait for each other: "+strings.Join(cycle, " for "))
		}
	}
	return nil
}

func (p *Placement) check() *field.Error {
	err := checkName(metadata.Child("name"), p.Metadata.Name)
	if err == nil && len(p.Spec.Applications) == 0 {
		err = field.Required(spec.Child("applications"), "a placement needs at least one")
	}
	return cmp.Or(err, p.Spec.Clusters.check(spec.Child("clusters")))
}

func (c Clusters) check(path *field.Path) *field.Error {
	switch {
	case c.Selector != nil:
		return checkSelector(path.Child("selector"), c.Selector)
	case len(c.Names) == 0:
		return field.Required(path, "must have names or a selector; an empty selector selects all clusters")
	}
	return nil
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
