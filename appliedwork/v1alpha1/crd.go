// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	_ "embed" // the CRD
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed multicluster.x-k8s.io_appliedworks.yaml
var crdYAML []byte

const (
	// CRDName is the name of the CustomResourceDefinition.
	CRDName = "appliedworks." + GroupName
	// schemaRevision grows with each change of the schema in a release, so that an older program does not take fields
	// away that a newer one has added.
	schemaRevision         = 1
	annotationSchema       = GroupName + "/schema-revision"
	establishedCheckPeriod = 50 * time.Millisecond
)

// CRDResource is what CustomResourceDefinitions are called in requests.
var CRDResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// CRDClient is what [EnsureCRD] needs of a dynamic client: client.Resource(v1alpha1.CRDResource) is one.
//
// +kubebuilder:object:generate=false
type CRDClient interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, obj *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error)
}

// CRD returns the CustomResourceDefinition of AppliedWork. The caller may change it.
func CRD() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crdYAML, &crd.Object); err != nil {
		panic(fmt.Sprintf("the embedded CRD: %v", err)) // a test reads it
	}
	setSchemaRevision(crd, schemaRevision)
	return crd
}

// EnsureCRD installs the CRD, or brings what is there up to date, and returns when the API server serves it or ctx ends.
// It never downgrades: a CRD of a newer schema revision, or one that has this version with more than ours, stays; and all
// versions, served or stored, of the CRD that is there stay. It returns the API server's errors.
func EnsureCRD(ctx context.Context, client CRDClient) error {
	for {
		live, err := client.Get(ctx, CRDName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = client.Create(ctx, CRD(), metav1.CreateOptions{FieldManager: GroupName})
		case err == nil:
			if merged, changed := mergeCRD(live); changed {
				_, err = client.Update(ctx, merged, metav1.UpdateOptions{FieldManager: GroupName})
			}
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			continue // somebody else was faster: look at what they did
		}
		if err != nil {
			return fmt.Errorf("install the CRD %s: %w", CRDName, err)
		}
		return waitEstablished(ctx, client)
	}
}

func waitEstablished(ctx context.Context, client CRDClient) error {
	err := wait.PollUntilContextCancel(ctx, establishedCheckPeriod, true, func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, CRDName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the CRD %s to be established: %w", CRDName, err)
	}
	return nil
}
