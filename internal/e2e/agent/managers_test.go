// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"
)

// applies is an update strategy under test.
type applies struct {
	name     string
	strategy workv1.UpdateStrategy
	manager  string // the first part of the field manager, if it sends the manifest
}

func serverSide(name, manager string, force bool) applies {
	return applies{name, workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply,
		ServerSideApply: &workv1.ServerSideApplyConfig{FieldManager: manager, Force: force}}, manager}
}

var allStrategies = []applies{
	{"update", workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}, "work-agent"},
	serverSide("default", "work-agent", false),
	serverSide("shop", "work-agent-shop", false),
	serverSide("other", "work-agent-other", false),
	serverSide("forced", "work-agent-forced", true),
	{"create-only", workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}, ""},
	{"read-only", workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly}, ""},
}

// managers: a work that changes from one update strategy to another has no conflict with its own
// earlier fields. It removes fields that its manifests no longer have, and has one field manager at
// a time. The fields of others stay.
func (s *scene) managers() {
	type pair struct {
		from, to applies
		there    bool // whether somebody else has created the object
		name     string
	}
	var pairs []pair
	for _, from := range allStrategies {
		for _, to := range allStrategies {
			for _, there := range []bool{false, true} {
				if from.name != "read-only" || there {
					p := pair{from, to, there, fmt.Sprintf("%s-%s-%t", from.name, to.name, there)}
					pairs = append(pairs, p)
				}
			}
		}
	}
	object := func(p pair, data string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{%s}}`, p.name,
			s.ns, data)
	}
	work := func(data string, strategy func(pair) applies) workv1.ManifestWorkSpec {
		var texts []string
		var configs []workv1.ManifestConfigOption
		for _, p := range pairs {
			texts = append(texts, object(p, data))
			by := strategy(p).strategy
			configs = append(configs, s.configure(p.name, func(o *workv1.ManifestConfigOption) { o.UpdateStrategy = &by }))
		}
		all := spec(texts...)
		all.ManifestConfigs = configs
		return all
	}
	for _, p := range pairs {
		if p.there {
			s.existing(object(p, `"z":"theirs"`))
		}
	}
	s.create("w", work(`"a":"1","b":"1"`, func(p pair) applies { return p.from }))
	s.applied("w")
	record := s.record("w")
	for i, data := range []string{`"a":"2"`, `"c":"3"`, `"a":"4","c":"3"`} {
		s.update("w", func(spec *workv1.ManifestWorkSpec) { *spec = work(data, func(p pair) applies { return p.to }) })
		s.applied("w")
		for _, p := range pairs {
			want := `{` + data
			switch {
			case p.to.manager != "":
			case p.from.manager != "" || p.from.name == "create-only" && !p.there: // the first apply's fields stay
				want = `{"a":"1","b":"1"`
			default:
				want = `{`
			}
			if p.there {
				want = strings.TrimPrefix(want+`,"z":"theirs"}`, "{,")
				if !strings.HasPrefix(want, "{") {
					want = "{" + want
				}
			} else {
				want += "}"
			}
			if err := s.isManaged(s.get(object(p, "")), string(record.UID), want, p.to); err != nil {
				s.t.Errorf("%s, change %d: %v", p.name, i, err)
			}
		}
	}
	s.delete("w")
	s.gone("w")
}

// isManaged returns an error if an object does not have the data, or if its managers for the work
// are not those of a strategy.
func (s *scene) isManaged(live *unstructured.Unstructured, uid, data string, by applies) error {
	if live == nil {
		return errors.New("it is not there")
	}
	got, err := json.Marshal(live.Object["data"])
	if err == nil && string(got) != data {
		err = fmt.Errorf("the data is %s, want %s", got, data)
	}
	var ours []string
	for _, e := range live.GetManagedFields() {
		if first, ok := strings.CutSuffix(e.Manager, "-"+uid); ok {
			ours = append(ours, first)
			if by.manager != "" && e.Operation != metav1.ManagedFieldsOperationApply {
				err = errors.Join(err, fmt.Errorf("%s is there by an %s", first, e.Operation))
			}
		}
	}
	switch {
	case by.manager != "" && !slices.Equal(ours, []string{by.manager}):
		return errors.Join(err, fmt.Errorf("it is managed by %v", ours))
	case by.name == "create-only" && len(ours) == 0:
		return errors.Join(err, errors.New("it is not managed"))
	case by.name == "read-only" && len(ours)+len(live.GetOwnerReferences())+len(live.GetAnnotations()) > 0:
		return errors.Join(err, fmt.Errorf("it is managed by %v, with %v", ours, live.GetAnnotations()))
	}
	return err
}
