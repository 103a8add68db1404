// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestInstall applies the manifests of each program twice, with its different stores and
// connections. Pods of the Deployment are admitted: an API server without controllers creates no
// Pods itself.
func TestInstall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster.CreateNamespaces("shop")
	grpc := []string{"--grpc", ":8443", "--grpc-cert", "/credentials/tls.crt", "--grpc-key", "/credentials/tls.key",
		"--grpc-client-ca", "/credentials/ca.crt"}
	agent := []string{"--cluster", "cluster1", "--source", "hub", "--hub", "hub.example.com:8443"}
	for _, tt := range []struct {
		name, program string
		own, flags    []string
		kinds         []string // in addition to those of all programs
	}{
		{"hub with a volume", "hub", nil, grpc, []string{"PersistentVolumeClaim"}},
		{"hub with a database", "hub", []string{"--monitoring"}, []string{"--broker", "mqtts://broker.example.com",
			"--store", "postgres://hub@db.example.com/hub", "--kubeconfig", "auto"},
			[]string{"ClusterRole", "ServiceMonitor", "PrometheusRule", "ConfigMap"}},
		{"agent with executors", "agent", []string{"--monitoring"}, append(agent, "--executor", "shop/deployer",
			"--executor", "*/x"),
			[]string{"CustomResourceDefinition", "Role", "RoleBinding", "PersistentVolumeClaim", "ServiceMonitor"}},
		{"agent with a role", "agent", []string{"--role", "edit"}, agent, []string{"CustomResourceDefinition",
			"ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim"}},
		{"work-apiserver with a volume", "work-apiserver", nil, []string{"--broker", "mqtts://broker.example.com"},
			[]string{"ClusterRole", "ClusterRoleBinding", "RoleBinding", "PersistentVolumeClaim"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			args := append(append(tt.own, "--"), tt.flags...)
			out := s.install(tt.program, args...)
			for _, kind := range append(tt.kinds, "Namespace", "ServiceAccount", "Deployment", "PodDisruptionBudget",
				"Service", "NetworkPolicy") {
				if !strings.Contains(out, "applied "+kind+" ") {
					t.Errorf("no %s: %s", kind, out)
				}
			}
			d := s.deployment(tt.program)
			if again := s.install(tt.program, args...); again != out {
				t.Errorf("the second time: %s, want %s", again, out)
			}
			if got := s.deployment(tt.program); got.Generation != d.Generation {
				t.Errorf("the second time changed the Deployment: %+v", got.Spec)
			}
			template := d.Spec.Template
			if err := s.createPod(template); err != nil {
				t.Errorf("a Pod of the Deployment: %v", err)
			}
			template.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
			if err := s.createPod(template); !apierrors.IsForbidden(err) ||
				!strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
				t.Errorf("a Pod with more privileges: %v, want a violation", err)
			}
		})
	}
}

func (s *site) createPod(template corev1.PodTemplateSpec) error {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: template.Labels}, Spec: template.Spec}
	_, err := s.core.CoreV1().Pods(namespace).Create(s.t.Context(), pod, metav1.CreateOptions{})
	return err
}
